"""PyTorch's GeGLU MLP on the CPU, timed on request: eager, by torch.compile, or frozen.

Reads one JSON object a line from standard input, {"m", "dim", "hidden", "dtype", "min_time", "side", "clock"}, and answers each with a
line {"median_us", "min_us", "calls"}. Weights stay the same from request to request, inputs are random. The first line
it writes says what it is: {"torch", "threads", "build"}.

`torch_compile` is torch.compile(forward, dynamic=False) of weights that are inputs, as in a model that may still change.
`torch_frozen` is what Inductor does for weights that never will: its `freezing` and `max_autotune`, which pack them for
oneDNN or MKL, one compilation of tens of seconds a problem.
"""

import functools
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


@functools.cache
def weights(dim, hidden, dtype):
    generator = torch.Generator().manual_seed(1)
    shapes = [(hidden, dim), (hidden, dim), (dim, hidden)]
    return [(torch.randn(s, generator=generator) / s[1] ** 0.5).to(DTYPES[dtype]) for s in shapes]


def forward(x, gate, up, down):
    return F.linear(F.gelu(F.linear(x, gate), approximate="tanh") * F.linear(x, up), down)


@functools.cache
def compiled():
    torch._dynamo.config.recompile_limit = 64  # sizes differ from request to request; eager is measured on its own
    return torch.compile(forward, dynamic=False)


class Layer(torch.nn.Module):
    def __init__(self, gate, up, down):
        super().__init__()
        self.gate, self.up, self.down = (torch.nn.Parameter(w, requires_grad=False) for w in (gate, up, down))

    def forward(self, x):
        return forward(x, self.gate, self.up, self.down)


@functools.lru_cache(maxsize=1)
def frozen(dim, hidden, dtype, m):
    import torch._inductor.config as inductor
    from torch._inductor import select_algorithm

    select_algorithm.PRINT_AUTOTUNE = False
    torch._dynamo.reset()
    layer = torch.compile(Layer(*weights(dim, hidden, dtype)).eval(), dynamic=False)
    with inductor.patch(freezing=True, max_autotune=True):
        layer(torch.randn(m, dim).to(DTYPES[dtype]))
    return layer


CLOCKS = {"wall": time.perf_counter, "thread": time.thread_time}  # thread: the processor time of the calling one


def measure(m, dim, hidden, dtype, min_time, side, clock):
    parameters = weights(dim, hidden, dtype)
    if side == "torch_frozen":
        run, parameters = frozen(dim, hidden, dtype, m), []
    else:
        run = compiled() if side == "torch_compile" else forward
    x = torch.randn(m, dim).to(DTYPES[dtype])
    seconds = []
    for _ in range(3):  # as many calls to warm up and to measure as `epilogue bench` makes
        run(x, *parameters)
    while sum(seconds) < min_time or len(seconds) < 5:
        start = CLOCKS[clock]()
        run(x, *parameters)
        seconds.append(CLOCKS[clock]() - start)
    return {"median_us": statistics.median(seconds) * 1e6, "min_us": min(seconds) * 1e6, "calls": len(seconds)}


def main():
    def answer(value):
        print(json.dumps(value), flush=True)

    build = [line.strip(" -") for line in torch.__config__.show().splitlines() if "oneDNN" in line or "MKL" in line]
    answer({"torch": torch.__version__, "threads": torch.get_num_threads(), "build": build[:2]})
    with torch.inference_mode():
        for line in sys.stdin:
            answer(measure(**json.loads(line)))


if __name__ == "__main__":
    main()

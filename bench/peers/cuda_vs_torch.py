#!/usr/bin/env python3
"""The gated MLP on a GPU: ours beside PyTorch eager, torch.compile and Liger, in turns in one process.

usage: cuda_vs_torch.py --library build/release/lib/liblayer_replays.so [--shapes FILE] [--modes LIST] [--peers LIST] [--out FILE]
Every time is the GPU's own: calls over layers and inputs that rotate past the L2 cache, captured in one CUDA graph (of
eight calls or more up to 512 rows, so that the start of a graph does not count), its replays timed by events. A large
GEMM runs at the card's power limit, so what ran before decides how fast the next one is: the candidates take turns, in
another order every round, and the median over the rounds is shown. `gemms` is F.linear over gate and up stacked, plus
down, with no activation: G, the scale. `wall` is a call and its synchronisation.
"""
import argparse
import ctypes
import json
import os
import random
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def read_shapes(path):
    for line in open(path):
        words = line.split("#")[0].split()
        if words:
            fields = dict(word.split("=") for word in words[1:])
            yield int(fields["m"]), int(fields["dim"]), int(fields["hidden"]), fields["act"]


class GatedMlp(nn.Module):
    def __init__(self, dim, hidden, act):
        super().__init__()
        self.gate_proj = nn.Linear(dim, hidden, bias=False)
        self.up_proj = nn.Linear(dim, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dim, bias=False)
        self.act = act

    def forward(self, x):
        gate = self.gate_proj(x)
        activated = F.gelu(gate, approximate="tanh") if self.act == "gelu_tanh" else F.silu(gate)
        return self.down_proj(activated * self.up_proj(x))


def liger_forward(layer):
    from liger_kernel.ops.geglu import LigerGELUMulFunction
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction
    pair = LigerGELUMulFunction if layer.act == "gelu_tanh" else LigerSiLUMulFunction
    return lambda x: layer.down_proj(pair.apply(layer.gate_proj(x), layer.up_proj(x)))


def gemms_forward(layer):
    stacked = torch.cat([layer.gate_proj.weight, layer.up_proj.weight])
    hidden = {}

    def forward(x):
        F.linear(x, stacked)
        if not hidden:  # made by the first call, before anything is timed or captured
            hidden["h"] = torch.randn(x.shape[0], stacked.shape[0] // 2, device="cuda", dtype=x.dtype)
        return F.linear(hidden["h"], layer.down_proj.weight)
    return forward


def between_events(batch, count):
    start, end = torch.cuda.Event(True), torch.cuda.Event(True)
    batch()  # the one before was another candidate's: not timed
    start.record()
    for _ in range(count):
        batch()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3 / count


def seconds_of(call):
    begin = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


class TorchReplays:
    def __init__(self, forwards, inputs, turns, warm_seconds):
        self.forwards, self.inputs, self.calls = forwards, inputs, turns * len(forwards)
        self.first_call_us = 1e6 * seconds_of(lambda: forwards[0](inputs[0]))
        stream, begin = torch.cuda.Stream(), time.perf_counter()
        with torch.cuda.stream(stream):
            while time.perf_counter() - begin < warm_seconds:
                self.each()
                torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for _ in range(turns):
                self.each()

    def each(self):
        for forward, x in zip(self.forwards, self.inputs):
            forward(x)

    def us(self, count):
        return between_events(self.graph.replay, count) / self.calls

    def wall_us(self, calls):
        return 1e6 * statistics.median(
            seconds_of(lambda: self.forwards[i % len(self.forwards)](self.inputs[i % len(self.forwards)]))
            for i in range(calls))


class OurReplays:
    library = None

    @classmethod
    def load(cls, path):
        cls.library = ctypes.CDLL(path)
        for name in ("make", "make_pointwise", "error"):
            getattr(cls.library, "layer_replays_" + name).restype = ctypes.c_void_p
        for name in ("us", "wall_us", "first_call_us"):
            getattr(cls.library, "layer_replays_" + name).restype = ctypes.c_double

    def __init__(self, make, words, sizes, sets, turns, warm_seconds):
        self.calls = turns * sets
        handle = getattr(self.library, "layer_replays_" + make)(
            *(word.encode() for word in words), *map(ctypes.c_int64, sizes), sets, turns, ctypes.c_double(warm_seconds))
        if not handle:
            raise RuntimeError(ctypes.string_at(self.library.layer_replays_error()).decode())
        self.handle = ctypes.c_void_p(handle)
        self.first_call_us = self.library.layer_replays_first_call_us(self.handle)

    def us(self, count):
        return self.library.layer_replays_us(self.handle, count)

    def wall_us(self, calls):
        return self.library.layer_replays_wall_us(self.handle, calls)

    def __del__(self):
        self.library.layer_replays_free(self.handle)


def in_turns(candidates, rounds, seconds):
    """Times of each candidate, one from every round."""
    counts = {name: max(1, round(seconds * 1e6 / (candidate.us(1) * candidate.calls))) for name, candidate in candidates.items()}
    times = {name: [] for name in candidates}
    order = list(candidates)
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            times[name].append(candidates[name].us(counts[name]))
    return times


def measure_shape(m, dim, hidden, act, modes, peers, options):
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    sets = int(min(max(2 * cache / (2 * (3 * dim * hidden + m * dim)) + 1, 2), 64))
    turns = -(-8 // sets) if m <= 512 else 1
    layers = [GatedMlp(dim, hidden, act).to("cuda", torch.bfloat16).eval() for _ in range(sets)]
    inputs = [torch.randn(m, dim, device="cuda", dtype=torch.bfloat16) for _ in range(sets)]
    row = dict(m=m, dim=dim, hidden=hidden, act=act, rotated_sets=sets, times={})
    candidates = {}
    with torch.inference_mode():
        for name in peers + modes:
            torch._dynamo.reset()
            try:
                if name in modes:
                    candidate = OurReplays("make", (name, act), (m, dim, hidden), sets, turns, options.warm)
                else:
                    forwards = {"torch_eager": lambda: layers, "gemms": lambda: [gemms_forward(l) for l in layers],
                                "liger": lambda: [liger_forward(l) for l in layers],
                                "torch_compile": lambda: [torch.compile(l) for l in layers]}[name]()
                    candidate = TorchReplays(forwards, inputs, turns, options.warm)
                candidates[name] = candidate
            except Exception as error:  # a candidate that fails here is named, not left out
                row["times"][name] = dict(error=repr(error)[:200])
        for name, times in in_turns(candidates, options.rounds, options.seconds).items():
            times.sort()
            row["times"][name] = dict(median_us=statistics.median(times), min_us=times[0], max_us=times[-1],
                                      wall_us=candidates[name].wall_us(60), first_call_us=candidates[name].first_call_us)
    return row


def measure_pointwise(m, n, options):
    """gelu_tanh(gate) * up alone: Inductor's kernel, Liger's, ours written by hand and ours generated."""
    from liger_kernel.ops.geglu import LigerGELUMulFunction
    sets = 4
    inputs = [[torch.randn(m, n, device="cuda", dtype=torch.bfloat16) for _ in range(2)] for _ in range(sets)]
    theirs = {"torch_compile": torch.compile(lambda pair: F.gelu(pair[0], approximate="tanh") * pair[1]),
              "liger": lambda pair: LigerGELUMulFunction.apply(*pair)}
    with torch.inference_mode():
        candidates = {name: TorchReplays([call] * sets, inputs, 1, options.warm) for name, call in theirs.items()}
        for mode in ("tuned", "compiled"):
            candidates[mode] = OurReplays("make_pointwise", (mode,), (m, n), sets, 1, options.warm)
        times = in_turns(candidates, options.rounds, options.seconds)
    return dict(m=m, n=n, times={name: dict(median_us=statistics.median(us), min_us=min(us), max_us=max(us)) for name, us in times.items()})


def ceilings():
    a, b = (torch.empty(1 << 31, dtype=torch.uint8, device="cuda") for _ in range(2))
    copy = statistics.median(between_events(lambda: b.copy_(a), 5) for _ in range(7))
    x, y = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product = statistics.median(between_events(lambda: x @ y, 20) for _ in range(15))
    return dict(copy_gbs=2 * (1 << 31) / copy / 1e3, gflops=2 * 8192**3 / product / 1e3)


def ratio_table(rows, modes, peers):
    versus = {"eager": "torch_eager", "tuned": "liger", "compiled": "torch_compile", "fused": "gemms"}
    pairs = [(mode, versus[mode]) for mode in modes if versus[mode] in peers]
    lines = ["times in us; a/b: our time over the peer's, below 1 is quicker",
             " ".join([f"{'shape':>22}", *(f"{name:>13}" for name in peers + modes), *(f"{a}/{b}" for a, b in pairs)])]
    for row in rows:
        us = lambda name: row["times"][name].get("median_us", float("nan"))
        lines.append(" ".join([f"{row['m']:>8},{row['dim']:>5},{row['hidden']:>6} ", *(f"{us(name):13.1f}" for name in peers + modes),
                               *(f"{us(a) / us(b):<{len(a) + len(b) + 1}.3f}" for a, b in pairs)]))
    return "\n".join(lines)


def save(result, path):
    """After every shape: a run that is cut short keeps what it has measured."""
    if path:
        with open(path, "w") as file:
            json.dump(result, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="liblayer_replays.so of a build")
    parser.add_argument("--shapes", default=os.path.join(os.path.dirname(__file__), "../shapes/hopper.txt"))
    parser.add_argument("--modes", default="eager,tuned,compiled,fused")
    parser.add_argument("--peers", default="torch_eager,liger,torch_compile,gemms")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.015, help="of one candidate in a round")
    parser.add_argument("--warm", type=float, default=0.3, help="seconds of calls before a candidate's graph is captured")
    parser.add_argument("--out")
    options = parser.parse_args()
    modes, peers = ([name for name in names.split(",") if name] for names in (options.modes, options.peers))
    OurReplays.load(options.library)
    random.seed(1)
    limits = ceilings()
    command = " ".join([os.path.basename(sys.argv[0]), *(os.path.basename(word) for word in sys.argv[1:])])
    result = dict(date=time.strftime("%Y-%m-%d"), command=command, gpu=torch.cuda.get_device_name(0),
                  torch=torch.__version__, ceilings=limits, rounds=options.rounds, rows=[], pointwise=None)
    rows = result["rows"]
    for shape in read_shapes(options.shapes):
        rows.append(measure_shape(*shape, modes, peers, options))
        save(result, options.out)
    print(ratio_table(rows, modes, peers))
    if "liger" in peers:
        pointwise = result["pointwise"] = measure_pointwise(8192, 3072, options)
        print("gelu_tanh(gate) * up, 8192x3072:", ", ".join(f"{name} {us['median_us']:.2f}" for name, us in pointwise["times"].items()))
    print(f"copy {limits['copy_gbs']:.0f} GB/s, bf16 8192^3 {limits['gflops'] / 1e3:.0f} TFLOP/s (PyTorch {torch.__version__})")
    save(result, options.out)


main()

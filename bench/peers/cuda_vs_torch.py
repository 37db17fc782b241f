#!/usr/bin/env python3
"""The gated MLP on a GPU: ours beside PyTorch eager, torch.compile and Liger, in one run on one machine.

usage: cuda_vs_torch.py --program build/release/bin/epilogue [--shapes FILE] [--modes LIST] [--peers LIST] [--out FILE]
Every time is the GPU's own: calls over layers and inputs that rotate past the L2 cache (as many sets as `epilogue bench`
takes), captured in one CUDA graph, its replays timed by events, the median taken. `gemms` is F.linear over gate and up
stacked, plus down, with no activation: G, the scale. `wall` is a call and its synchronisation.
"""
import argparse
import json
import os
import subprocess
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


def between_events(batch, calls, seconds):
    times, begin = [], time.perf_counter()
    while len(times) < 7 or time.perf_counter() - begin < seconds:
        start, end = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record()
        batch()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / calls)
    times.sort()
    return times[len(times) // 2], times[0], times[int(0.95 * (len(times) - 1))]


def measure(forwards, inputs, seconds):
    start = time.perf_counter()
    forwards[0](inputs[0])
    torch.cuda.synchronize()
    first = time.perf_counter() - start

    def each():
        for forward, x in zip(forwards, inputs):
            forward(x)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        begin = time.perf_counter()
        while time.perf_counter() - begin < seconds:
            each()
            torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        each()
    graph.replay()
    median, least, p95 = between_events(graph.replay, len(forwards), seconds)
    del graph
    wall = []
    for i in range(60):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        forwards[i % len(forwards)](inputs[i % len(forwards)])
        torch.cuda.synchronize()
        wall.append((time.perf_counter() - begin) * 1e6)
    wall.sort()
    return dict(median_us=median, min_us=least, p95_us=p95, wall_us=wall[len(wall) // 2], first_call_s=first)


def measure_shape(m, dim, hidden, act, peers, seconds):
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    sets = int(min(max(2 * cache / (2 * (3 * dim * hidden + m * dim)) + 1, 2), 64))
    layers = [GatedMlp(dim, hidden, act).to("cuda", torch.bfloat16).eval() for _ in range(sets)]
    inputs = [torch.randn(m, dim, device="cuda", dtype=torch.bfloat16) for _ in range(sets)]
    row = dict(m=m, dim=dim, hidden=hidden, act=act, rotated_sets=sets, peers={})
    with torch.inference_mode():
        for peer in peers:
            torch._dynamo.reset()
            try:
                forwards = {"eager": lambda: layers, "gemms": lambda: [gemms_forward(l) for l in layers],
                            "liger": lambda: [liger_forward(l) for l in layers],
                            "compile": lambda: [torch.compile(l) for l in layers]}[peer]()
                row["peers"][peer] = measure(forwards, inputs, seconds)
            except Exception as error:  # a peer that fails here is named, not left out
                row["peers"][peer] = dict(error=repr(error)[:200])
    return row


def ceilings():
    a, b = (torch.empty(1 << 31, dtype=torch.uint8, device="cuda") for _ in range(2))
    copy = between_events(lambda: b.copy_(a), 1, 0.1)[0]
    x, y = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(20):
        x @ y
    product = between_events(lambda: x @ y, 1, 0.3)[0]
    return dict(copy_gbs=2 * (1 << 31) / copy / 1e3, gflops=2 * 8192**3 / product / 1e3)


def ours(program, shapes, modes, seconds):
    command = [program, "bench", "mlp", "--device", "cuda", "--dtype", "bf16", "--shapes", shapes, "--modes", modes,
               "--min-time", str(seconds), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return " ".join(["epilogue", *command[1:]]), json.loads(done.stdout)


def ratio_table(rows, found, modes, peers):
    lines = ["times in us; x: our time over the peer's, below 1 is quicker",
             " ".join([f"{'shape':>22}", *(f"{p:>9}" for p in peers), *(f"{m:>9}" for m in modes),
                       *(f"{m}/{p:<8}" for m in modes for p in peers)])]
    for row in rows:
        key = (row["m"], row["dim"], row["hidden"])
        mine = {r["mode"]: r["median_us"] for r in found["rows"] if (r["m"], r["dim"], r["hidden"]) == key}
        theirs = {p: row["peers"][p].get("median_us", float("nan")) for p in peers}
        lines.append(" ".join([f"{key[0]:>8},{key[1]:>5},{key[2]:>6} ", *(f"{theirs[p]:9.1f}" for p in peers),
                               *(f"{mine.get(m, float('nan')):9.1f}" for m in modes),
                               *(f"{mine.get(m, float('nan')) / theirs[p]:<{len(m) + 9}.3f}" for m in modes for p in peers)]))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--shapes", default=os.path.join(os.path.dirname(__file__), "../shapes/hopper.txt"))
    parser.add_argument("--modes", default="all")
    parser.add_argument("--peers", default="eager,liger,compile,gemms")
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--out")
    options = parser.parse_args()
    peers = options.peers.split(",")
    command, found = ours(options.program, options.shapes, options.modes, options.seconds)
    modes = list(dict.fromkeys(row["mode"] for row in found["rows"]))
    limits = ceilings()
    rows = [measure_shape(*shape, peers, options.seconds) for shape in read_shapes(options.shapes)]
    print(ratio_table(rows, found, modes, peers))
    print(f"copy {limits['copy_gbs']:.0f} GB/s, bf16 8192^3 {limits['gflops'] / 1e3:.0f} TFLOP/s (PyTorch {torch.__version__})")
    if options.out:
        result = dict(date=time.strftime("%Y-%m-%d"), command=command, gpu=torch.cuda.get_device_name(0),
                      torch=torch.__version__, ceilings=limits, peers=rows, ours=found)
        with open(options.out, "w") as file:
            json.dump(result, file, indent=1)


main()

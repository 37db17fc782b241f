#!/usr/bin/env python3
"""The stage that compile() makes of gelu_tanh(a) * b on the CPU beside torch.compile's kernel, in turns.

usage: build/venv-torch/bin/python bench/peers/cpu_pointwise_vs_torch.py [compile_bench] [ROUNDS]
Prints a table and writes bench/results/cpu_pointwise_vs_torch.json.
"""

import datetime
import json
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

from cpu_vs_torch import ROOT, machine

program = sys.argv[1] if len(sys.argv) > 1 else "build/release/bin/compile_bench"
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 9
command = [program, "--benchmark_filter=fused_geglu", "--benchmark_min_time=0.3", "--benchmark_format=json"]


@torch.compile(dynamic=False)
def geglu(a, b):
    return F.gelu(a, approximate="tanh") * b


def torch_us(a, b):
    seconds = []
    for _ in range(3):
        geglu(a, b)
    while sum(seconds) < 0.3 or len(seconds) < 5:
        start = time.perf_counter()
        geglu(a, b)
        seconds.append(time.perf_counter() - start)
    return statistics.mean(seconds) * 1e6  # as Google Benchmark counts


times, ready = {}, []
with torch.inference_mode():
    for _ in range(rounds):
        for row in json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)["benchmarks"]:
            rows, bits = (int(part.split(":")[1]) for part in row["name"].split("/")[1:3])
            dtype = {32: torch.float32, 16: torch.bfloat16}[bits]
            a, b = torch.randn(rows, 3072).to(dtype), torch.randn(rows, 3072).to(dtype)
            scale = {"ns": 1e-3, "us": 1, "ms": 1e3}[row["time_unit"]]
            times.setdefault((rows, bits), []).append((row["real_time"] * scale, torch_us(a, b)))
            ready.append(row["ready_us"])

result = {
    "command": " ".join(["python", *sys.argv]),
    "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    "cpu": machine()["cpu"],
    "threads": machine()["cores"],
    "torch": torch.__version__,
    "ready_us": {"median": statistics.median(ready), "max": max(ready)},
    "rows": [],
}
print(f"{'rows':>5} {'bits':>4} {'epilogue us':>12} {'torch.compile us':>17} {'torch / epilogue':>17}")
for (rows, bits), pairs in times.items():
    ours, theirs = (statistics.median(side) for side in zip(*pairs))
    ratio = statistics.median(t / e for e, t in pairs)
    result["rows"].append({"rows": rows, "bits": bits, "epilogue_us": ours, "torch_compile_us": theirs, "ratio": ratio})
    print(f"{rows:>5} {bits:>4} {ours:>12.1f} {theirs:>17.1f} {ratio:>17.2f}")
print(f"ready after {statistics.median(ready):.0f} us (slowest of {len(ready)}: {max(ready):.0f})")
(ROOT / "bench/results/cpu_pointwise_vs_torch.json").write_text(json.dumps(result, indent=1) + "\n")

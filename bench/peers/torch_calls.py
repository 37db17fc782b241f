#!/usr/bin/env python3
"""What a call costs its caller in PyTorch, beside bench/cuda_calls: first call, new batch sizes, synchronised calls.

usage: torch_calls.py [--compile]
"""
import json
import random
import sys
import time

import torch
import torch.nn.functional as F


def timed(call):
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e6


@torch.inference_mode()
def measure(prefix, make):
    result = {}
    weights = [torch.randn(s, device="cuda", dtype=torch.bfloat16) * 0.03 for s in ((4096, 1024), (4096, 1024), (1024, 4096))]
    forward = make(lambda x: F.linear(F.gelu(F.linear(x, weights[0]), approximate="tanh") * F.linear(x, weights[1]), weights[2]))
    new = lambda m: torch.randn(m, 1024, device="cuda", dtype=torch.bfloat16)
    x = new(512)
    torch.cuda.synchronize()
    result[f"{prefix} first call ms"] = timed(lambda: forward(x)) / 1e3
    random.seed(1)
    slowest = 0
    for _ in range(64):
        x = new(random.randint(1, 8192))
        torch.cuda.synchronize()
        slowest = max(slowest, timed(lambda: forward(x)))
    result[f"{prefix} slowest of 64 sizes ms"] = slowest / 1e3
    x = new(64)
    for _ in range(200):
        timed(lambda: forward(x))
    walls = sorted(timed(lambda: forward(x)) for _ in range(300))
    result[f"{prefix} wall us"] = walls[150]
    return result


result = measure("torch eager", lambda f: f)
if "--compile" in sys.argv:
    result |= measure("torch compile", torch.compile)
    torch._dynamo.reset()
    result |= measure("torch compile dynamic", lambda f: torch.compile(f, dynamic=True))
print(json.dumps(result))

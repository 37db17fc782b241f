#!/usr/bin/env python3
"""Eager GatedMlp (GeGLU) on the CPU beside PyTorch's: `make bench-peers`.

Both sides take turns, round by round, on the same machine with the same number of threads, each warmed up, with
constant weights and random inputs. A round gives one median per side; the table shows the median of the rounds and
their spread, and the ratio is the median over the pairs of neighbouring rounds, so that a machine that slows down
slows both. Writes what was found to bench/results/cpu_eager_vs_torch.json.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULT = ROOT / "bench/results/cpu_eager_vs_torch.json"


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/release/bin/epilogue")
    parser.add_argument("--python", default="build/venv-torch/bin/python", help="the interpreter that has PyTorch")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--m", type=int, nargs="+", default=[1, 16, 128, 1024, 8192])
    parser.add_argument("--dtype", nargs="+", default=["f32", "bf16"])
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--hidden", type=int, default=3072)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--min-time", type=float, default=0.5, help="seconds measured per side and round")
    parser.add_argument("--check", action="store_true", help="exit 1 when a ratio is below its goal")
    return parser.parse_args()


def machine():
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text()
    flags = set(re.search(r"^flags\s*:(.*)$", cpuinfo, re.M)[1].split())
    isa = [f for f in ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_fp16") if f in flags]
    return {
        "cpu": re.search(r"^model name\s*:\s*(.*)$", cpuinfo, re.M)[1],
        "cores": len(os.sched_getaffinity(0)),
        "isa": isa,
        "amx": "amx_bf16" in isa,
    }


def goal(m, dtype, amx):
    """The least ratio wanted, None where none was set."""
    if m < 128:
        return 1.0
    return {"f32": 1.2, "bf16": 1.5 if amx else None}.get(dtype)


class Torch:
    def __init__(self, python, environment):
        script = ROOT / "bench/peers/torch_cpu_mlp.py"
        self.process = subprocess.Popen(
            [python, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.version = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("bench-peers: PyTorch's side ended early; its message is above")
        return json.loads(line)

    def measure(self, problem):
        print(json.dumps(problem), file=self.process.stdin, flush=True)
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def epilogue_command(program, problem):
    return [program, "bench", "mlp", "--batch", str(problem["m"]), "--seq", "1", "--dim", str(problem["dim"]),
            "--hidden", str(problem["hidden"]), "--act", "gelu_tanh", "--dtype", problem["dtype"], "--device", "cpu",
            "--modes", "eager", "--min-time", str(problem["min_time"]), "--format", "json"]  # fmt: skip


def measure_epilogue(program, problem, environment):
    done = subprocess.run(epilogue_command(program, problem), capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"bench-peers: {' '.join(map(str, done.args))} gave {done.returncode}: {done.stderr.strip()}")
    result = json.loads(done.stdout)
    return result["rows"][0] | {"packing": result["packing"]}, result["ceilings"]


def spread(values):
    low, _, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return {"median": statistics.median(values), "min": min(values), "p25": low, "p75": high}


def compare(problem, rounds, ours, theirs):
    """One row: `rounds` measurements of each side, taken in turn."""
    mine, torch_rounds, ceilings = [], [], []
    for _ in range(rounds):
        row, ceiling = ours(problem)
        mine.append(row)
        ceilings.append(ceiling)
        torch_rounds.append(theirs(problem))
    flops = 6 * problem["m"] * problem["dim"] * problem["hidden"]
    row = {key: problem[key] for key in ("m", "dim", "hidden", "dtype")} | {"rounds": rounds}
    for side, found in (("epilogue", mine), ("torch", torch_rounds)):
        row[side] = {"us": spread([r["median_us"] for r in found]), "best_us": min(r["min_us"] for r in found)}
        row[side]["gflops"] = flops / row[side]["us"]["median"] / 1e3
    row["ratio"] = spread([t["median_us"] / e["median_us"] for e, t in zip(mine, torch_rounds)])
    row["ceilings"] = {k: statistics.median(c[k] for c in ceilings) for k in ceilings[0]}
    row["packing_ms"] = spread([r["packing"]["ms"] for r in mine])
    return row | {key: mine[-1][key] for key in ("implementation", "kernels")}


def print_table(rows):
    print(f"{'M':>5} {'dtype':>5} {'epilogue us (p25-p75)':>32} {'torch us (p25-p75)':>32} {'GFLOP/s':>8} {'torch':>7} "
          f"{'peak':>6} {'ratio (p25-p75)':>17} {'goal':>5} {'packing ms':>11}")  # fmt: skip
    for row in rows:
        times = [f"{u['median']:.1f} ({u['p25']:.1f}-{u['p75']:.1f})" for u in (row["epilogue"]["us"], row["torch"]["us"])]
        peak = row["ceilings"]["gflops"]
        if row["dtype"] == "bf16":
            peak = max(peak, row["ceilings"]["amx_bf16_gflops"])
        ratio = "{median:.2f} ({p25:.2f}-{p75:.2f})".format(**row["ratio"])
        wanted = "-" if row["goal"] is None else f"{row['goal']:.1f}" + ("" if row["met"] else "!")
        print(f"{row['m']:>5} {row['dtype']:>5} {times[0]:>32} {times[1]:>32} {row['epilogue']['gflops']:>8.1f} "
              f"{row['torch']['gflops']:>7.1f} {peak:>6.0f} {ratio:>17} {wanted:>5} "
              f"{row['packing_ms']['median']:>11.1f}")  # fmt: skip


def main():
    args = options()
    environment = os.environ | {"EPILOGUE_THREADS": str(args.threads), "OMP_NUM_THREADS": str(args.threads)}
    where = machine()
    torch = Torch(args.python, environment)
    rows = []
    for dtype in args.dtype:
        for m in args.m:
            problem = {"m": m, "dim": args.dim, "hidden": args.hidden, "dtype": dtype, "min_time": args.min_time}
            print(f"measuring M={m} {dtype}", file=sys.stderr)
            row = compare(problem, args.rounds, lambda p: measure_epilogue(args.program, p, environment), torch.measure)
            row["goal"] = goal(m, dtype, where["amx"])
            row["met"] = None if row["goal"] is None else row["ratio"]["median"] >= row["goal"]
            rows.append(row)
    torch.close()
    result = {
        "command": " ".join(["python3", "bench/peers/cpu_eager_vs_torch.py", *sys.argv[1:]]),
        "epilogue_command": " ".join(map(str, epilogue_command(args.program, problem))),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": where,
        "threads": args.threads,
        "versions": torch.version,
        "rows": rows,
    }
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{where['cpu']}, {args.threads} threads, {' '.join(where['isa'])} ({'AMX' if where['amx'] else 'no AMX'}), "
          f"PyTorch {torch.version['torch']}; peak: FMA or AMX rate measured in the same runs")  # fmt: skip
    print_table(rows)
    goals = [row["met"] for row in rows if row["goal"] is not None]
    print(f"{sum(goals)} of {len(goals)} goals reached (! marks the others); details in {RESULT.relative_to(ROOT)}")
    return 1 if args.check and not all(goals) else 0


if __name__ == "__main__":
    sys.exit(main())

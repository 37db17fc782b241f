#!/usr/bin/env python3
"""The modes of GatedMlp (GeGLU) on the CPU beside PyTorch's eager, torch.compile and frozen: `make bench-peers`.

All sides take turns, round by round, on the same machine with the same number of threads, each warmed up, with constant
weights and random inputs. A round gives one median per side; the table shows the medians of the rounds, and a ratio is
the median over the rounds of two sides' neighbouring measurements, so that a machine that slows down slows both. A round
during which other processes took more than their share of the machine (--others) is measured again; how much they took is
in the result. On a machine that is never calm, `--clock thread` compares what one thread of each side needs of a processor.
Writes what was found to --out.
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
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = {"wall": ROOT / "bench/results/cpu_vs_torch.json", "thread": ROOT / "bench/results/cpu_vs_torch_one_thread.json"}
MODES = ("eager", "compiled", "tuned", "fused")
PEERS = ("torch_eager", "torch_compile", "torch_frozen")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/release/bin/epilogue")
    parser.add_argument("--python", default="build/venv-torch/bin/python", help="the interpreter that has PyTorch")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--m", type=int, nargs="+", default=[1, 16, 128, 1024, 8192])
    parser.add_argument("--dtype", nargs="+", default=["f32", "bf16"])
    parser.add_argument("--sizes", nargs="+", default=["768/3072", "1024/4096"], help="dim/hidden")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--min-time", type=float, default=0.3, help="seconds measured per side and round")
    parser.add_argument("--others", type=float, default=0.05, help="share of the machine that others may take in a round")
    parser.add_argument("--patience", type=float, default=60, help="seconds a problem may wait for calm rounds")
    parser.add_argument("--clock", choices=list(RESULTS), default="wall", help="thread: processor time, one thread")
    parser.add_argument("--out", type=pathlib.Path, help="default: bench/results/cpu_vs_torch.json, or _one_thread.json")
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


# What is compared: a name, the side that should be slower (of several the quickest), the side that should be quicker,
# and the least ratio wanted from M = 128 up, in f32 and in bf16 with AMX. Elsewhere nobody should be slower than PyTorch.
COMPARISONS = (
    ("fused / PyTorch", ("torch_eager", "torch_compile"), "fused", {"f32": 1.3, "amx": 2.5}),
    ("fused / frozen", ("torch_frozen",), "fused", {}),
    ("compiled / torch.compile", ("torch_compile",), "compiled", {"f32": 1.2}),
    ("compiled / our eager", ("eager",), "compiled", {"f32": 1.1}),
    ("eager / PyTorch eager", ("torch_eager",), "eager", {"f32": 1.2, "amx": 1.5}),
)


def goal(m, dtype, name, wanted, amx):
    least = None if name in ("compiled / our eager", "fused / frozen") else 1.0
    return least if m < 128 else wanted.get("amx" if dtype == "bf16" and amx else dtype, least)


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
            "--modes", ",".join(MODES), "--min-time", str(problem["min_time"]), "--clock", problem["clock"],
            "--format", "json"]  # fmt: skip


def measure_epilogue(program, problem, environment):
    done = subprocess.run(epilogue_command(program, problem), capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"bench-peers: {' '.join(map(str, done.args))} gave {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


class Others:
    """How much of the machine processes other than the measured ones take."""

    def __init__(self, peer):
        self.peer, self.cores = peer, os.cpu_count()
        self.start()

    def busy(self):
        """Seconds that all processes of the machine, and that ours, have run."""
        ticks = os.sysconf("SC_CLK_TCK")
        user, nice, system, _, _, irq, softirq, steal = map(int, pathlib.Path("/proc/stat").read_text().split()[1:9])
        peer = pathlib.Path(f"/proc/{self.peer}/stat").read_text().rsplit(")")[-1].split()
        return (user + nice + system + irq + softirq + steal) / ticks, (int(peer[11]) + int(peer[12])) / ticks + sum(os.times()[:4])

    def start(self):
        self.at, self.before = time.monotonic(), self.busy()

    def share(self):
        """Of the machine, since start()."""
        everyone, ours = (now - then for now, then in zip(self.busy(), self.before))
        return max(0.0, everyone - ours) / (time.monotonic() - self.at) / self.cores

    def wait(self, most, until):
        """Until half a second has passed in which they took no more than `most`, or it is too late."""
        while time.monotonic() < until:
            self.start()
            time.sleep(0.5)
            if self.share() <= most:
                return


def calm_rounds(measure, count, others, most, patience):
    """Results of `measure` with the share others took: the calmest where patience ends before all rounds are calm."""
    end, rounds = time.monotonic() + patience, []
    while sum(share <= most for _, share in rounds) < count and (len(rounds) < count or time.monotonic() < end):
        others.wait(most, end)
        others.start()
        result = measure()
        rounds.append((result, others.share()))
    return sorted(rounds, key=lambda one: one[1])[:count]


def spread(values):
    low, _, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return {"median": statistics.median(values), "min": min(values), "p25": low, "p75": high}


def of_peak(problem, ours, ceilings):
    """Beside the FMA rate, which f32 by AMX passes; bf16 beside what the program holds it against."""
    return ours["gflops"] / ceilings["gflops"] if problem["dtype"] == "f32" else ours["of_ceiling"]


def measure_round(problem, ours, torch):
    """One measurement of each side: {side: row}, and the ceilings beside it."""
    found = ours(problem)
    sides = {row["mode"]: row for row in found["rows"]}
    for side in PEERS:
        sides[side] = torch.measure(problem | {"side": side})
    return sides, found["ceilings"]


def compare(problem, args, ours, torch, others):
    for side in PEERS[1:]:
        torch.measure(problem | {"side": side})  # compiles, which takes seconds
    rounds = calm_rounds(lambda: measure_round(problem, ours, torch), args.rounds, others, args.others, args.patience)
    measured = [result for result, _ in rounds]
    flops = 6 * problem["m"] * problem["dim"] * problem["hidden"]
    row = {key: problem[key] for key in ("m", "dim", "hidden", "dtype")} | {"rounds": args.rounds, "others": spread([share for _, share in rounds])}
    for side in (*MODES, *PEERS):
        us = [sides[side]["median_us"] for sides, _ in measured]
        row[side] = {"us": spread(us), "gflops": flops / statistics.median(us) / 1e3}
        if side in MODES:
            row[side] |= {key: measured[-1][0][side][key] for key in ("kernels", "implementation")}
            row[side]["of_peak"] = spread([of_peak(problem, sides[side], ceilings) for sides, ceilings in measured])
    row["ratios"] = {}
    for name, slower, quicker, wanted in COMPARISONS:
        ratio = spread([min(s[side]["median_us"] for side in slower) / s[quicker]["median_us"] for s, _ in measured])
        least = goal(problem["m"], problem["dtype"], name, wanted, args.amx)
        row["ratios"][name] = ratio | {"goal": least, "met": None if least is None else ratio["median"] >= least}
    row["ceilings"] = {k: statistics.median(c[k] for _, c in measured) for k, v in measured[0][1].items() if v is not None}
    return row


def print_table(rows):
    sides = (*MODES, *PEERS)
    print(f"{'M':>5} {'sizes':>10} {'dtype':>5} " + " ".join(f"{side + ' us':>16}" for side in sides) + f" {'of peak':>8} {'others':>7}")
    for row in rows:
        times = " ".join(f"{row[side]['us']['median']:>16.1f}" for side in sides)
        print(f"{row['m']:>5} {row['dim']:>5}/{row['hidden']:<4} {row['dtype']:>5} {times} {row['fused']['of_peak']['median']:>8.0%} "
              f"{row['others']['median']:>7.0%}")  # fmt: skip
    print(f"\n{'M':>5} {'sizes':>10} {'dtype':>5} " + " ".join(f"{name:>26}" for name, *_ in COMPARISONS))
    for row in rows:
        cells = []
        for name, *_ in COMPARISONS:
            ratio = row["ratios"][name]
            cells.append("{median:.2f} ({p25:.2f}-{p75:.2f})".format(**ratio) + ("!" if ratio["met"] is False else " "))
        print(f"{row['m']:>5} {row['dim']:>5}/{row['hidden']:<4} {row['dtype']:>5} " + " ".join(f"{c:>26}" for c in cells))


def main():
    args = options()
    if args.clock == "thread":
        args.threads, args.patience = 1, 0
    environment = os.environ | {"EPILOGUE_THREADS": str(args.threads), "OMP_NUM_THREADS": str(args.threads)}
    where = machine()
    args.amx = where["amx"]
    torch = Torch(args.python, environment)
    others = Others(torch.process.pid)
    file = (args.out or RESULTS[args.clock]).resolve()
    rows = []
    for dtype in args.dtype:
        for size in args.sizes:
            for m in args.m:
                dim, hidden = map(int, size.split("/"))
                problem = {"m": m, "dim": dim, "hidden": hidden, "dtype": dtype, "min_time": args.min_time, "clock": args.clock}
                print(f"measuring M={m} {size} {dtype}", file=sys.stderr)
                rows.append(compare(problem, args, lambda p: measure_epilogue(args.program, p, environment), torch, others))
                result = {
                    "command": " ".join(["python3", "bench/peers/cpu_vs_torch.py", *sys.argv[1:]]),
                    "epilogue_command": " ".join(map(str, epilogue_command(args.program, problem))),
                    "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
                    "machine": where,
                    "threads": args.threads,
                    "clock": args.clock,
                    "versions": torch.version,
                    "rows": rows,
                }
                file.write_text(json.dumps(result, indent=1) + "\n")  # each time: what was measured is kept
    torch.close()
    print(f"{where['cpu']}, {args.threads} threads, {' '.join(where['isa'])} ({'AMX' if where['amx'] else 'no AMX'}), "
          f"PyTorch {torch.version['torch']}; of peak: fused beside the FMA rate, bf16 beside that of its instructions, measured in the same runs")  # fmt: skip
    print_table(rows)
    goals = [ratio["met"] for row in rows for ratio in row["ratios"].values() if ratio["goal"] is not None]
    print(f"{sum(goals)} of {len(goals)} goals reached (! marks the others); details in {os.path.relpath(file)}")
    return 1 if args.check and not all(goals) else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Reading a large trace: `epilogue trace summary` beside Python's json.load and zcat, in one run.

    trace_read.py [--program build/release/bin/epilogue] [--megabytes 212] [--runs 5] [--out FILE.json]

Times are the best of the runs, so that other work on the machine counts least; memory is the peak resident size.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOAD = "import json, sys; json.load(open(sys.argv[1]))"


def measure(command, runs):
    """The best wall time in seconds and the largest peak memory in bytes."""
    best, peak = float("inf"), 0
    for _ in range(runs):
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        best = min(best, time.perf_counter() - start)
        peak = max(peak, usage.ru_maxrss * 1024)
        if status != 0:
            sys.exit(f"{command[0]} failed")
    return best, peak


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/epilogue"))
    parser.add_argument("--megabytes", type=float, default=212)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        plain = f"{folder}/big.json"
        subprocess.run([sys.executable, str(ROOT / "bench/make_big_trace.py"), plain,
                        "--megabytes", str(options.megabytes)], check=True, stdout=sys.stderr)
        subprocess.run(["gzip", "-k", "-1", plain], check=True)
        summary = [options.program, "trace", "summary"]
        rows = {}
        rows["json.load"] = measure([sys.executable, "-c", LOAD, plain], 1)
        rows["epilogue, plain"] = measure([*summary, plain], options.runs)
        rows["zcat"] = measure(["zcat", f"{plain}.gz"], options.runs)
        rows["epilogue, gzip"] = measure([*summary, f"{plain}.gz"], options.runs)

    print(f"{'':16} {'seconds':>8} {'peak MB':>8}")
    for name, (seconds, memory) in rows.items():
        print(f"{name:16} {seconds:8.3f} {memory / 1e6:8.1f}")
    ratios = {"json_load_over_plain": rows["json.load"][0] / rows["epilogue, plain"][0],
              "gzip_over_zcat": rows["epilogue, gzip"][0] / rows["zcat"][0]}
    print(f"plain: {ratios['json_load_over_plain']:.1f} times as fast as json.load; "
          f"gzip: {ratios['gzip_over_zcat']:.2f} of zcat's time")
    if options.out:
        result = {"megabytes": options.megabytes, "ratios": ratios,
                  "rows": {name: {"seconds": s, "peak_bytes": m} for name, (s, m) in rows.items()}}
        pathlib.Path(options.out).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""HolisticTraceAnalysis opens what `epilogue profile` writes: `make peers-check`, which runs this in build/venv-hta.

Profiles a linear layer and an MLP, loads both traces and looks for the profiled steps and for the ops of each.
"""

import logging
import pathlib
import subprocess
import sys

from hta.trace_analysis import TraceAnalysis

# Ops expected per step and how many of each.
CASES = {
    "linear": {"ep::linear": 1, "ep::t": 1, "ep::addmm": 1},
    "mlp": {"ep::linear": 3, "ep::t": 3, "ep::mm": 3, "ep::gelu": 1, "ep::mul": 1},
}
ACTIVE = 3


def check(program, folder, case, ops):
    """What is wrong with the trace of one case, as sentences."""
    path = folder / f"{case}.json"
    subprocess.run([program, "profile", case, "--active", str(ACTIVE), "--trace", path], check=True, stdout=subprocess.DEVNULL)
    analysis = TraceAnalysis(trace_files={0: str(path)}, trace_dir=str(folder), include_last_profiler_step=True)
    names = analysis.t.get_trace(0)["name"].map(analysis.t.symbol_table.get_sym_table().__getitem__)
    found = names.value_counts().to_dict()
    steps = sum(count for name, count in found.items() if name.startswith("ProfilerStep#"))
    wrong = [] if steps == ACTIVE else [f"{steps} steps, expected {ACTIVE}"]
    wrong += [f"{op} {found.get(op, 0)} times, expected {ACTIVE * n}" for op, n in ops.items() if found.get(op, 0) != ACTIVE * n]
    print(f"{case}: {steps} steps, " + ", ".join(f"{op} x{found.get(op, 0)}" for op in ops))
    return wrong


def main(program="build/release/bin/epilogue", folder="build/peers-check"):
    logging.disable(logging.WARNING)
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for case, ops in CASES.items():
        wrong = check(program, folder, case, ops)
        for sentence in wrong:
            print(f"{case}: {sentence}", file=sys.stderr)
        failed += bool(wrong)
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

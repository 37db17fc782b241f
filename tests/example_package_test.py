#!/usr/bin/env python3
"""examples/package as its author makes it: built with a compiler and the one header, tested, packed, added, tried out."""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, required=True)
    program = parser.parse_args().program.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        header = folder / "include/epilogue/kernel_abi.h"
        header.parent.mkdir(parents=True)
        shutil.copy(ROOT / "include/epilogue/kernel_abi.h", header)
        author = folder / "author"
        shutil.copytree(ROOT / "examples/package", author, ignore=shutil.ignore_patterns("build"))
        environment = {**os.environ, "EPILOGUE_CACHE_DIR": f"{name}/cache", "XDG_CONFIG_HOME": f"{name}/config"}

        def run(*command):
            done = subprocess.run(list(map(str, command)), cwd=author, env=environment, capture_output=True, text=True,
                                  timeout=300)
            if done.returncode != 0:
                sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
            return done.stdout

        include = f"EPILOGUE_INCLUDE={folder / 'include'}"
        run("make", include)
        run("make", "test", include)
        # The header is C, too.
        run("cc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-x", "c", header)
        run(program, "kernels", "pack", author, "--output", folder / "packed")
        run(program, "kernels", "add", folder / "packed")
        told = json.loads(run(program, "kernels", "test", "example/silu@1", "--rows", 8, "--dim", 32, "--hidden", 64,
                              "--min-time", 0, "--format", "json"))
        if [check["problem"] for check in told["checks"]] != ["silu f32"] or not told["checks"][0]["passed"]:
            sys.exit(f"the package was not tested: {told}")
        shown = run(program, "profile", "mlp", "--batch", 1, "--seq", 4, "--dim", 32, "--hidden", 64, "--act", "silu",
                    "--kernels", "example/silu@1")
        if "example_silu_mul_f32 [example/silu@1]" not in shown:
            sys.exit(f"the profile does not name the package:\n{shown}")
    print("the example is built, tested, packed, added and run")


main()

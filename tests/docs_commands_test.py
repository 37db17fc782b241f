#!/usr/bin/env python3
"""Runs every command that README.md and docs/*.md show, so that no document promises what is not there.

A ```sh block holds commands, one a line; in a ```console block they follow "$ ". What calls `epilogue` runs in an empty
folder with the example traces at traces/ and what was built at build/release/packages/, in the order shown, and must exit 0, or with the code that a comment
"# exit N" at its end declares. `make TARGET` must be a target of the Makefile. Other commands are only shown.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(sh|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(text):
    """The commands of a document, in order; a line that ends in a backslash goes on."""
    for kind, body in BLOCK.findall(text):
        for line in re.sub(r"\\\n\s*", "", body).splitlines():
            if kind == "console" and line.startswith("$ "):
                yield line[2:].strip()
            elif kind == "sh" and line.strip() and not line.startswith("#"):
                yield line.strip()


def problem_with(command, folder, environment, targets):
    """None when the command holds, otherwise one line on what went wrong."""
    make = re.match(r"make ([a-z-]+)", command)
    if make:
        return None if make[1] in targets else "the Makefile has no such target"
    if not re.search(r"(^|[|;&]\s*)epilogue ", command):
        return None
    declared = re.search(r"#.*\bexit (\d)", command)
    expected = int(declared[1]) if declared else 0
    run = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, env=environment, timeout=300,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return None if run.returncode == expected else f"exit {run.returncode}, expected {expected}\n{run.stdout}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True)
    program = parser.parse_args().program.resolve()
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown, failed = 0, 0
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        with tempfile.TemporaryDirectory() as folder:
            environment["EPILOGUE_CACHE_DIR"] = folder + "/cache"
            (Path(folder) / "traces").symlink_to(ROOT / "tests/data/traces")
            packages = program.parent.parent / "packages"
            if packages.is_dir():
                (Path(folder) / "build/release").mkdir(parents=True)
                (Path(folder) / "build/release/packages").symlink_to(packages)
            for command in commands(document.read_text()):
                shown += 1
                problem = problem_with(command, folder, environment, targets)
                if problem:
                    failed += 1
                    print(f"{document.relative_to(ROOT)}: {command}\n  {problem}")
    print(f"{shown} commands shown, {failed} failed")
    sys.exit(1 if failed or not shown else 0)


main()

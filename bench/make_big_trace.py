#!/usr/bin/env python3
"""Writes a large trace by repeating a real one's events, with times, ids, correlations and step numbers shifted.

    make_big_trace.py OUT.json[.gz] [--source tests/data/traces/mlp_eager.json.gz] [--megabytes 212]
"""
import argparse
import gzip
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What changes from one repetition to the next, in the order of the groups of NUMBER.
NUMBER = re.compile(r'"ts": (\d+\.\d+)|"External id": (\d+)|"correlation": (\d+)|"id": (\d+)|ProfilerStep#(\d+)')


def split_events(text):
    """The file before its events, the events and the file after them."""
    begin = text.index('"traceEvents": [') + len('"traceEvents": [')
    end = text.rindex("]")
    events = re.sub(r"\s+", " ", text[begin:end])  # Kineto indents; a million events should fit 212 MB
    return text[:begin], events, text[end:]


def template_of(events):
    """Literal pieces, and between them (which shift applies, the number in the source)."""
    pieces, numbers, at = [], [], 0
    for match in NUMBER.finditer(events):
        kind = match.lastindex
        pieces.append(events[at:match.start(kind)])
        number = match.group(kind)
        numbers.append((kind, int(number.replace(".", "")) if kind == 1 else int(number)))
        at = match.end(kind)
    return pieces, numbers, events[at:]


def repetition(pieces, numbers, rest, shifts):
    parts = []
    for piece, (kind, number) in zip(pieces, numbers):
        number += shifts[kind]
        parts.append(piece)
        parts.append(f"{number // 1000}.{number % 1000:03d}" if kind == 1 else str(number))
    parts.append(rest)
    return "".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--source", default=ROOT / "tests/data/traces/mlp_eager.json.gz")
    parser.add_argument("--megabytes", type=float, default=212)
    options = parser.parse_args()

    with gzip.open(options.source, "rt") as file:
        before, events, after = split_events(file.read())
    pieces, numbers, rest = template_of(events)
    rest = rest.rstrip()

    def span(kind):
        values = [number for k, number in numbers if k == kind]
        return max(values) - min(values) + 1 if values else 0

    times = span(1) + 1_000_000  # a millisecond between two repetitions
    ids, correlations, steps = span(2), span(3), span(5)
    repetitions = max(1, round(options.megabytes * 1e6 / len(events)))
    count = events.count('"ph"')
    opener = gzip.open if str(options.out).endswith(".gz") else open
    with opener(options.out, "wt") as out:
        out.write(before)
        for r in range(repetitions):
            shifts = (0, r * times, r * ids, r * correlations, r * correlations, r * steps)
            out.write(repetition(pieces, numbers, rest, shifts))
            if r + 1 < repetitions:
                out.write(",")
        out.write("\n  " + after)
    print(f"{options.out}: {repetitions} repetitions, {repetitions * count} events")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The README's chart and table, and docs/performance.md's table of rates, from a result of bench/peers/cuda_vs_torch.py.

usage: chart.py bench/results/h200_mlp.json docs/h200_mlp.svg     writes the chart, prints the tables as Markdown
A bar is the time over G's, the GEMMs alone: shorter is quicker, and what is left of the line beats the library's GEMMs.
"""
import json
import sys

SERIES = [("torch_eager", "PyTorch eager", "#b8bec8"), ("liger", "Liger", "#8f99a8"),
          ("torch_compile", "torch.compile", "#64748b"), ("fused", "Epilogue fused", "#d9480f")]
COLUMNS = [("torch_eager", "PyTorch eager"), ("liger", "Liger"), ("torch_compile", "torch.compile"), ("gemms", "G"),
           ("eager", "`eager`"), ("tuned", "`tuned`"), ("compiled", "`compiled`"), ("fused", "`fused`")]
LEFT, BAR, GAP, UNIT, MOST = 150, 11, 14, 330, 1.75  # pixels; MOST: where longer bars are cut


def us(row, name):
    return row["times"][name]["median_us"]


def text(x, y, words, anchor="start", size=12, color="#334155", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{color}" '
            f'font-weight="{weight}" paint-order="stroke" stroke="#ffffff" stroke-width="3">{words}</text>')


def chart(result):
    parts, y, top = [], 58, 50
    for row in result["rows"]:
        middle = y + BAR * len(SERIES) / 2 + 4
        parts.append(text(LEFT - 10, middle, f"{row['m']}, {row['dim']}, {row['hidden']}", "end"))
        for name, _, color in SERIES:
            ratio = us(row, name) / us(row, "gemms")
            width = UNIT * min(ratio, MOST)
            parts.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR - 2}" fill="{color}"/>')
            ours = name == "fused"
            parts.append(text(LEFT + width + 4, y + BAR - 3, f"{ratio:.2f}", size=9, color=color if ours else "#64748b",
                              weight="bold" if ours else "normal"))
            y += BAR
        y += GAP
    line = LEFT + UNIT
    # Behind the bars and their numbers, many of which end there.
    parts.insert(0, f'<line x1="{line}" y1="{top}" x2="{line}" y2="{y - GAP + 4}" stroke="#0f172a" stroke-dasharray="4 3"/>')
    parts.append(text(line, 44, "G: cuBLAS, GEMMs alone", "middle", 11))
    x = LEFT
    for _, label, color in SERIES:
        parts.append(f'<rect x="{x}" y="12" width="11" height="11" fill="{color}"/>')
        parts.append(text(x + 16, 22, label))
        x += 34 + 7 * len(label)
    parts.append(text(LEFT - 10, 44, "M, dim, hidden", "end", 11))
    width, height = LEFT + UNIT * MOST + 50, y
    note = f"GPU time over G, {result['gpu']}, bf16, {result['date']}; shorter is quicker"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height + 14:.0f}" '
            f'font-family="system-ui, sans-serif">\n<rect width="100%" height="100%" fill="#ffffff"/>\n'
            + "\n".join(parts) + "\n" + text(LEFT, height + 4, note, size=11) + "\n</svg>\n")


def three_digits(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def table(result):
    lines = ["| M, dim, hidden | " + " | ".join(label for _, label in COLUMNS) + " | `fused` / G |",
             "|---" * (len(COLUMNS) + 2) + "|"]
    for row in result["rows"]:
        cells = [three_digits(us(row, name)) for name, _ in COLUMNS]
        least = three_digits(min(us(row, name) for name, _ in COLUMNS if name != "gemms"))  # G is no whole MLP
        cells = [f"**{cell}**" if cell == least and name != "gemms" else cell for cell, (name, _) in zip(cells, COLUMNS)]
        lines.append(f"| {row['m']}, {row['dim']}, {row['hidden']} | " + " | ".join(cells)
                     + f" | {us(row, 'fused') / us(row, 'gemms'):.2f} |")
    return "\n".join(lines)


def rates(result):
    """How near `fused` comes to what the card does: products by arithmetic, few rows by reading the weights."""
    ceilings = result["ceilings"]
    lines = ["| M, dim, hidden | TFLOP/s | of the product's ceiling | weights, TB/s | of the copy's |", "|---|---|---|---|---|"]
    for row in result["rows"]:
        weights = 3 * row["dim"] * row["hidden"]
        gflops, gbs = (work / us(row, "fused") / 1e3 for work in (2 * row["m"] * weights, 2 * weights))
        lines.append(f"| {row['m']}, {row['dim']}, {row['hidden']} | {three_digits(gflops / 1e3)} | {gflops / ceilings['gflops']:.0%} "
                     f"| {gbs / 1e3:.2f} | {gbs / ceilings['copy_gbs']:.0%} |")
    return "\n".join(lines)


if len(sys.argv) != 3:
    sys.exit(__doc__)
with open(sys.argv[1]) as file:
    measured = json.load(file)
with open(sys.argv[2], "w") as file:
    file.write(chart(measured))
print(table(measured), rates(measured), sep="\n\n")

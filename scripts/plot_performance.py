#!/usr/bin/env python3
"""Draws the charts of docs/performance.md: reads docs/performance.json and writes docs/performance.svg.

    plot_performance.py           write the SVG
    plot_performance.py --check   exit with 1 when the SVG is not the one that the JSON gives

The JSON is an object with `charts`, a list of {title, x, y, series}. `x` and `y` have a `label`, `x` also the `ticks` to
print and with `log` a logarithmic scale. A series has a `name` and `points`, each [x, y] or [x, y, text].
"""
import html
import json
import math
import pathlib
import sys

import lintlib

PANEL_W, PANEL_H = 360, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 34, 92
COLOURS = ("#1b6ca8", "#c1502e", "#3b8132", "#7a4fa3")
STEPS = (1, 2, 2.5, 5, 10)


def axis_top(largest, n_ticks=5):
    """(end of the axis, step) so that at most n_ticks steps of a round size cover 0 to `largest`."""
    size = 10 ** math.floor(math.log10(largest / n_ticks))
    step = next(size * s for s in STEPS if size * s * n_ticks >= largest)
    return step * math.ceil(largest / step), step


def number(value):
    return f"{value:.1f}".rstrip("0").rstrip(".")


def text(x, y, content, anchor="middle", size=11, extra=""):
    return (f'<text x="{number(x)}" y="{number(y)}" text-anchor="{anchor}" font-size="{size}"{extra}>'
            f"{html.escape(str(content))}</text>")


def chart(spec, left):
    """The SVG elements of one chart whose panel begins at x = left."""
    x0, x1 = left + LEFT, left + PANEL_W - RIGHT
    y0, y1 = PANEL_H - BOTTOM, TOP
    points = [p for series in spec["series"] for p in series["points"]]
    scale = math.log2 if spec["x"].get("log") else float
    ticks = spec["x"]["ticks"]
    first, last = scale(min(ticks)), scale(max(ticks))
    top, step = axis_top(max(p[1] for p in points))

    def at(x, y):
        return x0 + (scale(x) - first) / (last - first) * (x1 - x0), y0 - y / top * (y0 - y1)

    out = [text((x0 + x1) / 2, 18, spec["title"], size=13, extra=' font-weight="bold"')]
    for i in range(round(top / step) + 1):
        _, y = at(ticks[0], i * step)
        out.append(f'<line x1="{x0}" y1="{number(y)}" x2="{x1}" y2="{number(y)}" stroke="#ddd"/>')
        out.append(text(x0 - 6, y + 4, number(i * step), "end"))
    for tick in ticks:
        x, _ = at(tick, 0)
        out.append(f'<line x1="{number(x)}" y1="{y0}" x2="{number(x)}" y2="{y0 + 4}" stroke="#333"/>')
        out.append(text(x, y0 + 17, f"{tick:,}"))
    out.append(f'<line x1="{x0}" y1="{y0}" x2="{x1}" y2="{y0}" stroke="#333"/>')
    out.append(text((x0 + x1) / 2, y0 + 34, spec["x"]["label"]))
    middle = (y0 + y1) / 2
    out.append(text(left + 12, middle, spec["y"]["label"], extra=f' transform="rotate(-90 {left + 12} {number(middle)})"'))
    for n, series in enumerate(spec["series"]):
        colour = COLOURS[n % len(COLOURS)]
        places = [at(*point[:2]) for point in series["points"]]
        path = " ".join(f"{number(x)},{number(y)}" for x, y in places)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for i, ((x, y), point) in enumerate(zip(places, series["points"])):
            out.append(f'<circle cx="{number(x)}" cy="{number(y)}" r="3" fill="{colour}"/>')
            if len(point) > 2:
                # Above and below the line by turns, so that labels of neighbours do not overlap.
                below = i % 2 == 1
                out.append(text(x + (-4 if below else 4), y + (13 if below else -6), point[2],
                                "end" if below or x > x1 - 20 else "start", 10))
        key = y0 + 50 + 15 * n
        out.append(f'<line x1="{x0}" y1="{key}" x2="{x0 + 18}" y2="{key}" stroke="{colour}" stroke-width="2"/>')
        out.append(text(x0 + 24, key + 4, series["name"], "start"))
    return out


def svg(figures):
    """The whole SVG: the charts side by side."""
    charts = figures["charts"]
    width = PANEL_W * len(charts)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{PANEL_H}" '
             f'viewBox="0 0 {width} {PANEL_H}" font-family="sans-serif">',
             f'<rect width="{width}" height="{PANEL_H}" fill="white"/>']
    for n, spec in enumerate(charts):
        lines += chart(spec, n * PANEL_W)
    return "\n".join(lines + ["</svg>", ""])


def main():
    parser = lintlib.arguments(__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the SVG that is there")
    args = parser.parse_args()
    docs = args.root.resolve() / "docs"
    drawn = svg(json.loads((docs / "performance.json").read_text(encoding="utf-8")))
    target = pathlib.Path(docs / "performance.svg")
    if not args.check:
        target.write_text(drawn, encoding="utf-8")
        return 0
    if not target.is_file() or target.read_text(encoding="utf-8") != drawn:
        print("plot_performance: docs/performance.svg differs from docs/performance.json; run scripts/plot_performance.py")
        return 1
    print("plot_performance: docs/performance.svg is current")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Small line charts as SVG, for the documentation: panels side by side under one legend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

# Strong enough on white and on black; grey is for axes and words.
COLOURS = ("#d1462f", "#2f7fd1", "#2e9e5b", "#b9770e", "#8e5bd1", "#d14b9d", "#3aa6a6", "#7f8c3a")
GREY = "#888888"
_LEFT, _RIGHT, _BOTTOM, _TOP = 38, 10, 34, 26


@dataclass(frozen=True)
class Line:
    """Points of a curve, and half the width of a band around it."""

    x: Sequence[float]
    y: Sequence[float]
    half: Sequence[float] | None = None


@dataclass(frozen=True)
class Panel:
    """A chart of named lines."""

    title: str
    lines: Mapping[str, Line]
    x_label: str
    y_range: tuple[float, float]
    x_ticks: Sequence[float] = ()


def draw(
    panels: Sequence[Panel],
    names: Sequence[str],
    label: str,
    *,
    per_row: int = 4,
    size: tuple[int, int] = (232, 190),
) -> str:
    """An SVG file of panels; ``names`` are those of the legend, in the order of the colours."""
    panel_width, panel_height = size
    colours = dict(zip(names, COLOURS, strict=False))
    per_row = min(per_row, len(panels))
    rows = -(-len(panels) // per_row)
    width = per_row * panel_width
    columns = max(1, width // 190)
    legend = 20 * -(-len(names) // columns)
    height = rows * panel_height + legend + 10
    head = f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}"'
    font = f'font-family="sans-serif" font-size="11" fill="{GREY}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {head} {font}>']
    for i, panel in enumerate(panels):
        x, y = i % per_row * panel_width, i // per_row * panel_height
        parts.append(f'<g transform="translate({x} {y})">{_panel(panel, colours, size)}</g>')
    for i, name in enumerate(names):
        x, y = i % columns * (width / columns) + 8, rows * panel_height + 14 + 20 * (i // columns)
        parts.append(
            f'<path d="M{x:.0f} {y}h18" stroke="{colours[name]}" stroke-width="2.5"/>'
            f'<text x="{x + 24:.0f}" y="{y + 4}">{escape(name)}</text>'
        )
    return "".join(parts) + "</svg>\n"


def _panel(panel: Panel, colours: Mapping[str, str], size: tuple[int, int]) -> str:
    xs = np.concatenate([np.asarray(line.x, float) for line in panel.lines.values()])
    low, high = panel.y_range
    right, bottom = size[0] - _RIGHT, size[1] - _BOTTOM

    def at_x(value: float) -> float:
        return _LEFT + (value - xs.min()) / (xs.max() - xs.min()) * (right - _LEFT)

    def at_y(value: float) -> float:
        return bottom - (value - low) / (high - low) * (bottom - _TOP)

    parts = [f'<text x="{_LEFT}" y="14" font-weight="bold">{escape(panel.title)}</text>']
    for tick in _ticks(low, high):
        y = at_y(tick)
        parts.append(
            f'<path d="M{_LEFT} {y:.1f}H{right}" stroke="{GREY}" stroke-opacity=".3"/>'
            f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{_number(tick)}</text>'
        )
    below = f'y="{bottom + 14}" text-anchor="middle"'
    parts += [
        f'<text x="{at_x(tick):.1f}" {below}>{_number(tick)}</text>'
        for tick in panel.x_ticks or sorted(set(xs.tolist()))
    ]
    parts.append(
        f'<text x="{(_LEFT + right) / 2:.0f}" y="{bottom + 28}" text-anchor="middle">'
        f"{escape(panel.x_label)}</text>"
    )
    # What is first in the legend is drawn last, on top.
    for name in sorted(panel.lines, key=list(colours).index, reverse=True):
        line, colour = panel.lines[name], colours[name]
        seen = [(x, y) for x, y in zip(line.x, line.y, strict=True) if low <= y <= high]
        points = [(at_x(x), at_y(y)) for x, y in seen]
        if line.half is not None:
            edges = [
                [(at_x(x), at_y(min(max(y + sign * h, low), high))) for x, y, h in
                 zip(line.x, line.y, line.half, strict=True)]
                for sign in (1, -1)
            ]  # fmt: skip
            area = _path([*edges[0], *edges[1][::-1]])
            parts.append(f'<path d="{area}Z" fill="{colour}" fill-opacity=".15"/>')
        parts.append(f'<path d="{_path(points)}" fill="none" stroke="{colour}" stroke-width="2"/>')
    return "".join(parts)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / 4
    power = 10 ** np.floor(np.log10(rough))
    step = power * next(f for f in (1, 2, 5, 10) if f * power >= rough * 0.999)
    return [float(step * i) for i in range(int(np.ceil(low / step)), int(high / step) + 1)]


def _number(value: float) -> str:
    text = f"{abs(value):.3g}"
    text = text[1:] if text.startswith("0.") else text
    return f"−{text}" if value < 0 else text

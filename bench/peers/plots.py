"""The figures as pictures: plain SVG, written by hand, to be looked at in any browser."""

from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from bench.peers.quantities import GNOMON, Entrant, Line, Match
from gnomon.bench.results import number

OWN, OTHER, WHISKER, INK = "#b45309", "#94a3b8", "#1f2937", "#111827"
TITLES = {
    "rates": "Tasks a second (longer is better)",
    "delays": "Milliseconds to the start (shorter is better)",
    "costs": "What a task costs (shorter is better)",
}
_PANEL, _COLUMNS = 420, 2
_NAMES, _VALUES = 90, 64  # to the left and to the right of the bars
_ROW, _HEAD, _TOP = 18, 30, 40


def draw(match: Match, folder: Path) -> list[Path]:
    """A picture of each group, with what was measured of it."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for group, title in TITLES.items():
        lines = [line for line in match.lines if line.quantity.group == group and _drawn(line)]
        if lines:
            file = folder / f"peers-{group}.svg"
            file.write_text(picture(f"{title}; rounds: {match.rounds}", lines, match.entrants))
            written.append(file)
    return written


def picture(title: str, lines: Sequence[Line], entrants: Sequence[Entrant]) -> str:
    """A panel of bars for each quantity: the median, and a whisker from the lowest round to the
    highest."""
    height = _HEAD + _ROW * len(entrants) + 10
    rows = -(-len(lines) // _COLUMNS)
    parts = [_text(16, 24, title, size=15)]
    for place, line in enumerate(lines):
        x, y = place % _COLUMNS * _PANEL, _TOP + place // _COLUMNS * height
        parts += _panel(line, entrants, x + 16, y)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_PANEL * _COLUMNS}" '
        f'height="{_TOP + rows * height}" font-family="sans-serif" role="img">\n'
        f"<title>{escape(title)}</title>\n"
        '<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _panel(line: Line, entrants: Sequence[Entrant], x: float, y: float) -> list[str]:
    parts = [_text(x, y + 18, line.quantity.title, size=13)]
    summaries = {entrant.name: line.summary(entrant.name) for entrant in entrants}
    longest = max((found.high for found in summaries.values() if found), default=0.0)
    scale = (_PANEL - 32 - _NAMES - _VALUES) / longest if longest > 0 else 0.0
    for row, entrant in enumerate(entrants):
        top = y + _HEAD + row * _ROW
        left, found = x + _NAMES, summaries[entrant.name]
        parts.append(_text(left - 6, top + 11, entrant.title, anchor="end"))
        if found is None:
            parts.append(_text(left, top + 11, "not measured"))
            continue
        colour = OWN if entrant.name == GNOMON else OTHER
        width = max(0.0, found.median * scale)
        low, high = (left + max(0.0, value * scale) for value in (found.low, found.high))
        parts += [
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="13" fill="{colour}"/>',
            _line(low, high, top + 6.5),
            _text(left + max(width, high - left) + 5, top + 11, number(found.median)),
        ]
    return parts


def _drawn(line: Line) -> bool:
    return line.quantity.whole == "median" and not line.quantity.name.endswith("_steady")


def _line(left: float, right: float, y: float) -> str:
    return f'<line x1="{left:.1f}" y1="{y:.1f}" x2="{right:.1f}" y2="{y:.1f}" stroke="{WHISKER}"/>'


def _text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 11) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
        f'fill="{INK}">{escape(words)}</text>'
    )

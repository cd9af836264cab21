"""The tables at the end, in 80 columns."""

from collections.abc import Callable, Sequence
from textwrap import wrap

from bench.peers.quantities import GNOMON, Entrant, Line, Match
from gnomon.bench.results import number

WIDTH = 80
TITLE = 17
CELL = 9
_NOTHING = "-"


def text(match: Match) -> str:
    """Medians, spread, ratios, and with what settings."""
    peers = [entrant for entrant in match.entrants if entrant.name != GNOMON]
    several = match.rounds > 1
    parts = [
        f"Medians of {match.rounds} rounds" if several else "One round",
        _table(match, match.entrants, _median),
    ]
    if several:
        parts += [
            "",
            "Spread: highest minus lowest round, as a share of the median",
            _table(match, match.entrants, _spread),
        ]
    if len(peers) < len(match.entrants) and peers:
        parts += [
            "",
            "Gnomon : peer, median of the rounds' ratios (over 1: Gnomon is better)",
            _table(match, peers, _ratio),
        ]
    parts += ["", *_legend(match), "", *_absent(match)]
    return "\n".join(parts).rstrip() + "\n"


def _table(match: Match, entrants: Sequence[Entrant], cell: Callable[[Line, str], str]) -> str:
    head = " " * TITLE + "".join(_right(entrant.title) for entrant in entrants)
    rows = [
        line.quantity.title.ljust(TITLE)
        + "".join(_right(cell(line, entrant.name)) for entrant in entrants)
        for line in match.lines
    ]
    return "\n".join([head, *rows])


def _right(words: str) -> str:
    return words[: CELL - 1].rjust(CELL)


def _median(line: Line, contender: str) -> str:
    value = line.whole(contender)
    return _NOTHING if value is None else number(value)


def _spread(line: Line, contender: str) -> str:
    found = line.summary(contender)
    return _NOTHING if found is None else f"{found.spread:.0%}"


def _ratio(line: Line, peer: str) -> str:
    found = line.ratio(peer)
    return _NOTHING if found is None else f"{found.median:.2f}"


def _legend(match: Match) -> list[str]:
    words = [f"{name.replace('_', ' ')}: {value}" for name, value in match.notes.items()]
    lines = wrap("; ".join(words), WIDTH)
    for entrant in match.entrants:
        settings = ", ".join(f"{name} {value}" for name, value in entrant.settings.items())
        said = f"{entrant.title} {entrant.version}: {settings or 'default settings'}"
        lines += wrap(f"{said}; {entrant.remark}", WIDTH, subsequent_indent="  ")
    return lines


def _absent(match: Match) -> list[str]:
    lines = []
    for name, why in match.absent.items():
        lines += wrap(f"not measured: {name}: {why}", WIDTH, subsequent_indent="  ")
    for each in match.failures:
        said = f"failed: {each.contender}, {each.measure}, round {each.round}: {each.why}"
        lines += wrap(said, WIDTH, subsequent_indent="  ")
    return lines

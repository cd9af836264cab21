"""What the measures give, by name, and what is said of it: medians, spread, ratios. Pure."""

from collections.abc import Sequence
from statistics import median
from typing import Any, Literal

import msgspec

from bench.rounds import Summary, summary

GNOMON = "gnomon"


class PeerQuantity(msgspec.Struct, frozen=True):
    """One line of the tables."""

    name: str
    title: str  # no longer than a line of the table has room for
    better: Literal["higher", "lower"]
    whole: Literal["median", "most"] = "median"  # of the rounds
    group: Literal["rates", "delays", "costs"] = "rates"


class Line(msgspec.Struct, frozen=True):
    """One quantity of all contenders, round by round. None: it could not be measured."""

    quantity: PeerQuantity
    values: dict[str, list[float | None]]

    def summary(self, contender: str) -> Summary | None:
        found = self._found(contender)
        return summary(found) if found else None

    def whole(self, contender: str) -> float | None:
        found = self._found(contender)
        if not found:
            return None
        return max(found) if self.quantity.whole == "most" else median(found)

    def ratio(self, peer: str) -> Summary | None:
        """How many times as good Gnomon is, in the rounds that have both: over 1, it is better."""
        pairs = zip(self.values.get(GNOMON, []), self.values.get(peer, []), strict=False)
        ratios = [
            own / other if self.quantity.better == "higher" else other / own
            for own, other in pairs
            if own is not None and other is not None and own > 0 and other > 0
        ]
        return summary(ratios) if ratios else None

    def _found(self, contender: str) -> list[float]:
        return [value for value in self.values.get(contender, []) if value is not None]


class Entrant(msgspec.Struct, frozen=True):
    """Who took part, with what."""

    name: str
    title: str
    version: str
    settings: dict[str, Any]
    remark: str


class Failure(msgspec.Struct, frozen=True):
    """A measure of a contender that came to nothing."""

    contender: str
    measure: str
    round: int
    why: str


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a run found out."""

    rounds: int
    sizes: dict[str, Any]
    notes: dict[str, Any]  # how it was measured
    entrants: list[Entrant]
    absent: dict[str, str]  # contender: why
    failures: list[Failure]
    lines: list[Line]

    def line(self, name: str) -> Line | None:
        return next((line for line in self.lines if line.quantity.name == name), None)


def _count(number: int) -> str:
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def quantities(drains: Sequence[int], herds: Sequence[int]) -> list[PeerQuantity]:
    """In the order of the tables."""
    found = [PeerQuantity(f"drain_{n}_rate", f"drain {_count(n)} /s", "higher") for n in drains]
    found += [
        PeerQuantity(f"drain_{n}_steady", f"· middle {_count(n)}", "higher") for n in drains[-1:]
    ]
    found += [
        PeerQuantity("sustained_rate", "sustained /s", "higher"),
        PeerQuantity("enqueue_single", "enqueue singly /s", "higher"),
        PeerQuantity("enqueue_bulk", "enqueue bulk /s", "higher"),
    ]
    found += [
        PeerQuantity(f"idle_{since}_{share}", f"idle {short} {share} ms", "lower", group="delays")
        for since, short in (("call", "call"), ("answer", "answ"))
        for share in ("p50", "p99")
    ]
    found += [
        PeerQuantity(f"drain_{n}_first", "ready to first ms", "lower", group="delays")
        for n in drains[-1:]
    ]
    for n in herds:
        found += [
            PeerQuantity(
                f"herd_{n}_{share}", f"{_count(n)} due {share} ms", "lower", group="delays"
            )
            for share in ("p50", "p99")
        ]
        early = f"{_count(n)} due early"
        found.append(PeerQuantity(f"herd_{n}_early", early, "lower", "most", "delays"))
    return found + [
        PeerQuantity(name, title, "lower", group="costs")
        for name, title in (
            ("cpu_worker", "CPU worker µs"),
            ("cpu_server", "CPU server µs"),
            ("cpu_all", "CPU together µs"),
            ("wal", "WAL bytes"),
            ("dead", "dead rows"),
        )
    ]

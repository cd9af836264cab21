"""A zone's time as spans of constant offset: where local times are plain arithmetic.

The policy for clock changes is worked into the bounds of the spans, so that a search needs no
special case for them: local times from `opens` to `closes` are this span's own, and one that is
before the span's first moment (inside a gap) fires at that moment.

Zones are asked for their offsets at probes and bisected where two differ, a block of time at a
time. `ZoneInfo` does not tell its transitions; no two in the tz database are less than 3.9 days
apart, so none hides between two probes.
"""

from datetime import timedelta
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from gnomon.cron.dst import Dst, Fold, Gap
from gnomon.cron.zones import change_between, offsets_at, zone

PROBE = 1 << 18  # three days
_BLOCK_BITS = 23  # a quarter of a year
_BLOCK = 1 << _BLOCK_BITS
_MOST_BLOCKS = 1024
_SECOND = timedelta(seconds=1)

# Offsets are less than 16 hours and change by a day at most: a local time's moment is less than
# this away from the same number, and two moments of one local time are less than this apart.
REACH = 2 * 86400

_PROBES = [timedelta(0, each) for each in range(0, _BLOCK + 2 * REACH + PROBE, PROBE)]


class Span(NamedTuple):
    """Moments from `start` to `end` (exclusive), and the local times that belong to them."""

    start: int
    end: int
    offset: int
    opens: int
    closes: int


class _Piece(NamedTuple):
    """One offset of the zone, from `start` to `end`."""

    start: int
    end: int
    offset: int


class Timeline:
    """The spans of one zone under one policy. They are found when asked for, and kept."""

    __slots__ = ("_blocks", "_policy", "_zone")

    def __init__(self, name: str, policy: Dst) -> None:
        self._zone = zone(name)
        self._policy = policy
        self._blocks: dict[int, tuple[Span, ...]] = {}

    def at(self, moment: int) -> Span:
        """The span that `moment` is in."""
        number = moment >> _BLOCK_BITS
        spans = self._blocks.get(number)
        if spans is None:
            if len(self._blocks) >= _MOST_BLOCKS:
                self._blocks.clear()
            spans = self._blocks[number] = self._find(number << _BLOCK_BITS)
        for span in spans:
            if moment < span.end:
                return span
        raise AssertionError("the spans of a block end where it ends")

    def _find(self, start: int) -> tuple[Span, ...]:
        pieces = self._pieces(start - REACH)
        return tuple(
            self._span(pieces, index, start)
            for index, piece in enumerate(pieces)
            if piece.end > start and piece.start < start + _BLOCK
        )

    def _span(self, pieces: list[_Piece], index: int, block: int) -> Span:
        piece = pieces[index]
        offset = piece.offset
        start, end = max(piece.start, block), min(piece.end, block + _BLOCK)
        opens, closes = start + offset, end + offset
        if self._policy.fold is Fold.FIRST:
            opens = max([opens, *(each.end + each.offset for each in pieces[:index])])
        elif self._policy.fold is Fold.SECOND:
            closes = min([closes, *(each.start + each.offset for each in pieces[index + 1 :])])
        if self._policy.gap is Gap.FIRE_AFTER and index and start == piece.start:
            opens = min(opens, start + pieces[index - 1].offset)
        return Span(start, end, offset, opens, closes)

    def _pieces(self, start: int) -> list[_Piece]:
        """The pieces of a block and of what is near: a change there can reach into the block."""
        begin = timedelta(0, start)
        offsets = offsets_at(self._zone, [begin + each for each in _PROBES])
        cuts = [(start, offsets[0])]
        for index, (before, after) in enumerate(pairwise(offsets)):
            if before != after:
                low = start + index * PROBE
                cuts.append((change_between(self._zone, low, low + PROBE, before), after))
        cuts.append((start + (len(offsets) - 1) * PROBE, offsets[-1]))
        return [_Piece(low, high, offset // _SECOND) for (low, offset), (high, _) in pairwise(cuts)]


@lru_cache(maxsize=1024)
def timeline(name: str, policy: Dst) -> Timeline:
    """Shared by all schedules of the zone: what one finds, the others need not look for."""
    return Timeline(name, policy)

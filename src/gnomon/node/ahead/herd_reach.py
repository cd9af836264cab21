"""How far ahead of its time a herd may be claimed, and how much of it. Pure."""

from collections.abc import Callable, Sequence
from operator import attrgetter

from gnomon.model.tasks.priority import Lane
from gnomon.store.ports.dispatch import Entry

EARLY_SECONDS = 0.05  # before its time that a task may be claimed
MOST_EARLY_SECONDS = 0.65  # the same for a large herd, by a clock that may be corrected meanwhile
EARLY_TICKS = 50
MOST_EARLY_TICKS = 600  # where there are so many that claiming them takes as long
_CLAIMS_A_TICK = 20  # that a node surely makes, on a busy machine as well
_LARGE_HERD = 1000  # more are not claimed within the usual time
_SAMPLE = 32
_PORTION = 2000  # that are chosen at once: choosing keeps all else waiting

Startable = Callable[[Sequence[Entry]], int]

_lane = attrgetter("lane")


def none_startable(_: Sequence[Entry]) -> int:
    """Nothing is known of them."""
    return 0


def portion_of(entries: list[Entry], *, far: bool, whole: bool) -> tuple[list[Entry], list[Entry]]:
    """Those of a herd to choose from now, and the others; nothing CRITICAL while it is far."""
    rest: list[Entry] = []
    if far and len({e.lane for e in entries}) > 1:
        rest = [e for e in entries if e.lane is Lane.CRITICAL]
        entries = sorted([e for e in entries if e.lane is not Lane.CRITICAL], key=_lane)
    if not whole and len(entries) > 1.5 * _PORTION:  # a small rest would not be a herd
        entries, rest = entries[:_PORTION], [*entries[_PORTION:], *rest]
    return entries, rest


def without(entries: Sequence[Entry], some: Sequence[Entry]) -> list[Entry]:
    """The same, less some of them."""
    if len(entries) == len(some):
        return []
    keys = {e.key for e in some}
    return [e for e in entries if e.key not in keys]


class HerdReach:
    """By the tick of a herd. A large one is looked at when it has grown, and not whenever somebody
    asks: its reach stays when some of it was taken."""

    def __init__(self, startable: Startable, must_share: Callable[[str], bool]) -> None:
        """`startable`: how many of such entries the slots can start within a moment. `must_share`:
        whether a tenant leaves slots to others."""
        self._startable = startable
        self._must_share = must_share
        self._known: dict[int, tuple[int, int]] = {}  # entries of a tick, and its reach
        self._taken: dict[int, int] = {}

    def ticks(self, tick: int, entries: Sequence[Entry]) -> int:
        """How many ticks ahead these, which are all of one, may be claimed."""
        count = len(entries)
        known = self._known.get(tick)
        if known is not None and count <= known[0]:
            return known[1]
        if count <= _LARGE_HERD:
            return EARLY_TICKS
        reach = self._of(entries)
        self._known[tick] = count, reach
        return reach

    def _of(self, entries: Sequence[Entry]) -> int:
        held = min(len(entries), self._startable(entries))
        if held <= _LARGE_HERD or self.is_shared(entries):
            return EARLY_TICKS
        return min(EARLY_TICKS + held // _CLAIMS_A_TICK, MOST_EARLY_TICKS)

    def is_shared(self, entries: Sequence[Entry]) -> bool:
        """Whether there are other tenants that slots are left to, or several among these."""
        tenants = {e.key.tenant_id for e in entries[:: len(entries) // _SAMPLE + 1]}
        return len(tenants) > 1 or any(map(self._must_share, tenants))

    def shorten(self, tick: int) -> None:
        """Nothing of it can be claimed further ahead."""
        self._known[tick] = self._known.get(tick, (0, 0))[0], EARLY_TICKS

    def startable(self, tick: int, entries: Sequence[Entry]) -> int:
        """How many of these can start within a moment, beside what was taken of their tick."""
        return self._startable(entries) - self._taken.get(tick, 0)

    def took(self, tick: int, count: int) -> None:
        """So many of it were taken; less than none: were given back."""
        self._taken[tick] = max(0, self._taken.get(tick, 0) + count)

    def passed(self, now: int) -> None:
        """Forget the ticks up to now."""
        for known in (self._known, self._taken):
            for tick in [tick for tick in known if tick <= now]:
                del known[tick]

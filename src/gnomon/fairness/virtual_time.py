"""A tenant's use in virtual time: seconds of slots, divided by its weight."""

from collections.abc import Sequence
from typing import Generic

from gnomon.fairness.lanes import LaneRound, TenantLanes
from gnomon.fairness.ready_queue import T
from gnomon.model.errors import BrokenInvariant

LEAST_WEIGHT = 1e-6
_FIRST_GUESS = 0.05  # seconds that a task of an unknown tenant is expected to run
_LEAST_CHARGE = 1e-4  # a task costs more than its run, and nothing must be free
# What runs longer is charged as it goes. Until then a wrong guess is on nobody's account for more
# than this, so that correcting it holds nobody up for long.
_MOST_CHARGE = 1.0
_LEARNING = 1 / 8  # how much of a guess each run replaces

NOWHERE, QUEUED, CAPPED = range(3)


class TenantShare(Generic[T]):
    """A tenant: what waits, what it holds, and its tag.

    The tag is the virtual time up to which the tenant has been served. A task is charged when it
    is taken, by what tasks of this tenant have taken lately; while it runs on, by what it has run;
    and once it ends, by what it really took. So in the end a tag counts work and nothing else.
    """

    __slots__ = (
        "charge", "critical", "guess", "held", "key", "lanes", "overrun", "prepaid", "serial",
        "tag", "tenant_id", "weight", "where",
    )  # fmt: skip

    def __init__(self, tenant_id: str, serial: int, order: LaneRound) -> None:
        self.tenant_id = tenant_id
        self.serial = serial
        self.lanes: TenantLanes[T] = TenantLanes(order)
        self.tag = 0.0
        self.key = 0.0  # the tag under which it is queued: the last one, or a lower one
        self.where = NOWHERE
        self.weight = 1.0
        self.held = 0
        self.critical = 0  # of those held
        self.prepaid = 0.0  # charged for what is held, by guess
        self.overrun = 0.0  # charged beyond that, for what runs on
        self.guess = _FIRST_GUESS  # seconds that its tasks take
        self.charge = _FIRST_GUESS  # for the next one

    def affords(self, until: float, most: int, *, ties: bool) -> int:
        """How many tasks it is charged for before its tag is above `until`; `ties`: or there."""
        each, tag, count = self.charge / self.weight, self.tag, 0
        while count < most and (tag < until or (ties and tag == until)):
            tag += each
            count += 1
        return count

    def hold(self, count: int, critical: int) -> float:
        """Charge so many tasks, and hold slots for them; gives the tag of the last before it."""
        self.held += count
        self.critical += critical
        self.prepaid += count * self.charge
        each, before, tag = self.charge / self.weight, self.tag, self.tag
        for _ in range(count):  # and not by multiplying: the sum is the same however they come
            before, tag = tag, tag + each
        self.tag = tag
        return before

    def release(self, seconds: Sequence[float | None], critical: int) -> None:
        """Tasks that were held ran for so long; None: one did not run, and costs nothing."""
        if len(seconds) > self.held:
            # Slots would be given away that do not exist, or never again be given to anybody.
            raise BrokenInvariant(f"{len(seconds)} tasks ended, and {self.held} were held")
        prepaid = self.prepaid / self.held if self.held else 0.0
        self.held -= len(seconds)
        self.critical -= critical
        self.prepaid = prepaid * self.held
        charged = prepaid * len(seconds)
        if self.overrun:
            overrun = self._overrun_of(seconds, prepaid)
            self.overrun -= overrun
            charged += overrun
        work, guess = 0.0, self.guess
        for ran in seconds:
            if ran is not None:
                work += ran
                guess += (ran - guess) * _LEARNING
                if ran < _LEAST_CHARGE:
                    work += _LEAST_CHARGE - ran
        self.guess = guess
        self.charge = min(max(guess, _LEAST_CHARGE), _MOST_CHARGE)
        self.tag += (work - charged) / self.weight

    def _overrun_of(self, seconds: Sequence[float | None], prepaid: float) -> float:
        """The seconds charged for these beyond the guess, as of the last look; once nothing else
        runs, that is all."""
        if not self.held:
            return self.overrun
        over = sum(ran - prepaid for ran in seconds if ran is not None and ran > prepaid)
        return min(self.overrun, over)

    def runs(self, seconds: list[float]) -> None:
        """Charge for running tasks that have run for longer than was expected."""
        if not self.held:
            return
        prepaid = self.prepaid / self.held
        overrun = sum(ran - prepaid for ran in seconds if ran > prepaid)
        self.tag += (overrun - self.overrun) / self.weight
        self.overrun = overrun

    @property
    def is_idle(self) -> bool:
        return not self.held and not self.lanes

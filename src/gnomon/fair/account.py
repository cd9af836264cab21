"""What a tenant has used, in virtual time: seconds of slots, divided by its weight."""

from datetime import datetime
from typing import Generic

from gnomon.fair.lanes import LaneRound, TenantLanes
from gnomon.fair.queue import T

LEAST_WEIGHT = 1e-6
_FIRST_GUESS = 0.05  # seconds that a task of an unknown tenant is expected to run
_LEAST_CHARGE = 1e-4  # a task costs more than its run, and nothing must be free
# What runs longer is charged as it goes. Until then a wrong guess is on nobody's account for more
# than this, so that correcting it holds nobody up for long.
_MOST_CHARGE = 1.0
_LEARNING = 1 / 8  # how much of a guess each run replaces

NOWHERE, QUEUED, CAPPED = range(3)


class Account(Generic[T]):
    """A tenant: what waits, what it holds, and its tag.

    The tag is the virtual time up to which the tenant has been served. A task is charged when it
    is taken, by what tasks of this tenant have taken lately; while it runs on, by what it has run;
    and once it ends, by what it really took. So in the end a tag counts work and nothing else.
    """

    __slots__ = (
        "critical", "guess", "held", "key", "lanes", "overrun", "prepaid", "serial", "tag",
        "tenant_id", "weight", "where",
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
        self.guess = _FIRST_GUESS

    def hold(self, lane: int) -> None:
        """Charge a task, and hold a slot for it."""
        charge = self.guess
        if charge > _MOST_CHARGE:
            charge = _MOST_CHARGE
        elif charge < _LEAST_CHARGE:
            charge = _LEAST_CHARGE
        self.held += 1
        self.prepaid += charge
        self.tag += charge / self.weight
        if lane == 0:
            self.critical += 1

    def release(self, lane: int, seconds: float | None) -> None:
        """A task that was held ran for so long; None: it did not run, and costs nothing."""
        prepaid = self.prepaid / self.held
        self.held -= 1
        self.prepaid = self.prepaid - prepaid if self.held else 0.0
        if lane == 0:
            self.critical -= 1
        overrun = self.overrun  # of what else runs, as of the last look; of nothing, at the end
        if self.held:
            overrun = min(overrun, max(0.0, (seconds or 0.0) - prepaid))
        self.overrun -= overrun
        charged = prepaid + overrun
        if seconds is None:
            self.tag -= charged / self.weight
            return
        self.tag += (max(seconds, _LEAST_CHARGE) - charged) / self.weight
        self.guess += (seconds - self.guess) * _LEARNING

    def runs(self, seconds: list[float]) -> None:
        """What is running has run for so long by now: charge what was not expected."""
        if not self.held:
            return
        prepaid = self.prepaid / self.held
        overrun = sum(ran - prepaid for ran in seconds if ran > prepaid)
        self.tag += (overrun - self.overrun) / self.weight
        self.overrun = overrun

    @property
    def is_idle(self) -> bool:
        return not self.held and not self.lanes

    def oldest(self, lane: int) -> datetime | None:
        """When the first of a lane was due, over the flows that are aside and the rest."""
        return min((entry.due_at for entry in self.lanes.heads(lane)), default=None)

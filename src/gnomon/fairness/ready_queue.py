"""The port of the ready queue: due work that waits for a free slot."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Protocol, TypeVar

from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey

Flow = tuple[str, int]  # a tenant, and the number of one of its flows
# A task that no longer holds a slot: its tenant, its lane, and for how many seconds it ran; None:
# it was not run after all.
End = tuple[str, Lane, float | None]


class Due(Protocol):
    """An entry, as far as the queue looks at it."""

    @property
    def key(self) -> TaskKey: ...
    @property
    def due_at(self) -> datetime: ...
    @property
    def lane(self) -> Lane: ...
    @property
    def flow(self) -> int: ...


T = TypeVar("T", bound=Due)
Admit = Callable[[T], bool]
Freely = Callable[[str], bool]  # whether all entries of a tenant are admitted
# Of entries of one tenant that wait in this order, at most so many: how many of the first are
# admitted.
AdmitFirst = Callable[[Iterable[T], int], int]


def everyone(_: Due) -> bool:
    """Admits whatever is due."""
    return True


def nobody(_tenant_id: str) -> bool:
    """Each entry is asked about."""
    return False


def none_at_once(_waiting: Iterable[Due], _most: int) -> int:
    """Each entry is asked about."""
    return 0


class ReadyQueue(Protocol[T]):
    """Decides which of the due entries start first.

    It holds hints: the entries of one process, any of which may have been cancelled or claimed
    elsewhere in the meantime. Whoever takes them finds that out by claiming, so the queue needs
    no removal. Every implementation keeps these promises:

    - What is put comes out once, and nothing else does.
    - Entries of the same lane, tenant and flow come out in the order they were put.
    - No tenant starves, however much others have waiting, and no lane of a tenant: while it holds
      entries, a bounded number of those of its other lanes is taken before its next one.
    - The order does not depend on how takes are cut: one take of 100 gives what 100 takes of 1
      give, at the same moment.
    - A flow that was not admitted is set aside with all its entries, and keeps nobody else waiting,
      until it is let back in.
    """

    def put_all(self, entries: Iterable[T]) -> None:
        """Add entries that are due, in this order."""

    def take(
        self,
        most: int,
        now: datetime,
        admit: Admit[T] = everyone,
        freely: Freely = nobody,
        at_once: AdmitFirst[T] = none_at_once,
        *,
        urgent: bool = False,
        evicting: bool = False,
    ) -> list[T]:
        """Remove up to `most` entries, in the order they should start; fewer only when there are
        no more that are admitted, and whose tenants may hold more slots. `admit` is asked once
        for each, right before it is taken, and may take what the entry needs: if it says yes, the
        entry is taken. It must not change the queue. `freely`: tenants whose entries `admit` would
        all admit, and take nothing for; it need not be asked about these. `at_once` may be asked in
        place of `admit` about many, and takes what those need that it admits: where it admits fewer
        than it is asked about, `admit` decides on the others. `urgent`: only what is CRITICAL.
        `evicting`: for each of them a running task will leave its slot, so that it costs nobody
        else one."""

    def put_back(self, entry: T) -> None:
        """An entry that was taken and could not be claimed: as if it had not been taken."""

    def let_in(self, flows: Iterable[Flow] | None = None) -> bool:
        """Admit what was set aside of these flows, of all by default; gives whether anything
        was."""

    def allows(self, tenant_id: str, lane: Lane) -> bool:
        """Whether this tenant may hold one more slot."""

    def must_share(self, tenant_id: str) -> bool:
        """Whether it may hold only a part of the slots, as there are other tenants."""

    def offers(self) -> bool:
        """Whether anything waits that `take` would give, if it is admitted."""

    def started(self, tenant_id: str, lane: Lane) -> None:
        """A task that was not taken from here takes a slot."""

    def runs(self, seconds: Iterable[tuple[str, float]]) -> None:
        """Told about once a second: the tenants of the tasks that run now, and for how long they
        have run so far."""

    def ended_all(self, ends: Iterable[End]) -> None:
        """These were taken, or have started, and hold slots no longer."""

    def waiting(self, tenant_id: str, lane: Lane, flow: int) -> int:
        """Entries of a flow, set aside or not."""

    def longest_waits(self, now: datetime) -> Mapping[Lane, float]:
        """Seconds since the first entries of each lane are due, of whichever tenant, set aside or
        not; 0 where none waits."""

    def depths(self) -> Mapping[Lane, int]:
        """Entries in each lane, set aside or not."""

    def drop_aside(self, kept: int, most: int) -> list[T]:
        """Remove about so many entries that are set aside, of the tenant that has the most of
        them; none where it has no more than it may keep."""

    def clear(self) -> list[T]:
        """Remove everything, also what was set aside."""

    def __len__(self) -> int:
        """Entries that wait to be taken, less what was set aside."""

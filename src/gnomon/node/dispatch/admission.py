"""Whether a due task may be claimed now: limits, broken hosts, pools.

What is not admitted is set aside with its whole flow, on the agenda; whoever set it aside lets it
back in once the reason is gone. Nothing here waits for anybody: what must be asked of the store is
asked by loops of its own.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from gnomon.model.task import TaskKey
from gnomon.pipe.envelope import Delivery, Report
from gnomon.store.ports.dispatch import Entry


class StartCheck(Protocol):
    """One reason for not starting a task."""

    def admit(self, entry: Entry) -> bool:
        """Whether it may be claimed. Takes what it needs, under its key: asking again for a key
        that has it all takes nothing."""

    def missed(self, keys: Iterable[TaskKey]) -> None:
        """These were admitted, and surely not claimed: what they took is free again. Not told of
        what runs here by an earlier claim."""

    def unanswered(self, keys: Iterable[TaskKey]) -> None:
        """The claim of these failed, and may or may not have been made. They are chosen again; and
        what was claimed all the same is given back."""

    def claimed(self, delivery: Delivery) -> bool:
        """Whether a task that was claimed may also start, by what its row says; if not, it is
        given back unstarted."""

    def ended(self, report: Report) -> None:
        """A claimed task is settled: what it took is free again. Without an outcome it was not
        started."""


class StartChecks:
    """All reasons together: what one refuses, the others have not taken anything for."""

    def __init__(self, each: Sequence[StartCheck] = ()) -> None:
        self._each = tuple(each)

    def admit(self, entry: Entry) -> bool:
        for number, admission in enumerate(self._each):
            if not admission.admit(entry):
                for before in self._each[:number]:
                    before.missed((entry.key,))
                return False
        return True

    def missed(self, keys: Iterable[TaskKey]) -> None:
        if self._each:
            keys = list(keys)
            for admission in self._each:
                admission.missed(keys)

    def unanswered(self, keys: Sequence[TaskKey]) -> None:
        for admission in self._each:
            admission.unanswered(keys)

    def refused(self, deliveries: Sequence[Delivery]) -> set[TaskKey]:
        """Which of the claimed ones must not start."""
        # Every one is told, whatever the others say: all of them will be told of the end.
        refused: set[TaskKey] = set()
        for admission in self._each:
            claimed = admission.claimed
            refused.update(d.key for d in deliveries if not claimed(d))
        return refused

    def ended(self, reports: Sequence[Report]) -> None:
        for admission in self._each:
            ended = admission.ended
            for report in reports:
                ended(report)

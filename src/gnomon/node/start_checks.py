"""Start checks: limits, breakers, places and pools that may keep a due task from starting.

A task passes them on its way through the node: before it is claimed (`admit`), once its row is
known (`claimed`), right before its call (`may_call`), when the call has ended (`called`) and when
it is settled (`ended`). What is not admitted is set aside with its whole flow, on the agenda; the
check that set it aside lets it back in once the reason is gone. Nothing here waits: what must be
asked of the store is asked by services.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from gnomon.fairness.ready_queue import AdmitFirst, everyone, none_at_once
from gnomon.model.tasks.task import TaskKey
from gnomon.pipe.envelope import Delivery, Report
from gnomon.store.ports.dispatch import Entry


class StartCheck:
    """One reason for not starting a task. A check overrides what concerns it."""

    def is_idle(self) -> bool:
        """Whether it would admit anything now, and take nothing for it."""
        return False

    def is_idle_for(self, tenant_id: str) -> bool:
        """The same for the entries of one tenant."""
        del tenant_id
        return self.is_idle()

    def is_free(self, tenant_id: str) -> bool:
        """Whether it would most likely admit whatever this tenant has, before that is known."""
        del tenant_id
        return True

    def is_plain(self, entry: Entry) -> bool:
        """Whether it would admit this one whatever runs, and take nothing for it."""
        return self.is_idle_for(entry.key.tenant_id)

    def admit(self, entry: Entry) -> bool:
        """Whether it may be claimed. Takes what it needs, under its key: asking again for a key
        that has it all takes nothing."""
        del entry
        return True

    def admit_first(self, waiting: Iterable[Entry], most: int) -> int:
        """Admit the first of these together, at most so many of one tenant; gives how many. It
        takes for them what `admit` would; what it does not admit, `admit` may."""
        del waiting, most
        return 0

    def missed(self, keys: Iterable[TaskKey]) -> None:
        """These were admitted, and surely not claimed: what they took is free again. Not told of
        what runs here by an earlier claim."""

    def unanswered(self, keys: Iterable[TaskKey]) -> None:
        """The claim of these failed, and may or may not have been made. They are chosen again; and
        what was claimed all the same is released."""

    def claimed(self, delivery: Delivery) -> bool:
        """Whether a task that was claimed may also start, by what its row says; if not, it is
        released unstarted."""
        del delivery
        return True

    def refused(self, deliveries: Sequence[Delivery]) -> list[TaskKey]:
        """Claimed tasks that must not start."""
        claimed = self.claimed
        return [d.key for d in deliveries if not claimed(d)]

    def may_call(self, delivery: Delivery) -> bool:
        """Whether to call now; if not, it is released unstarted."""
        del delivery
        return True

    def called(self, report: Report) -> None:
        """An execution has ended, and is not settled yet. Without an outcome no call was made."""

    def ended(self, report: Report) -> None:
        """A claimed task is settled: what it took is free again. Without an outcome it was not
        started."""

    def all_ended(self, reports: Sequence[Report]) -> None:
        """The same for many."""
        ended = self.ended
        for report in reports:
            ended(report)


class StartChecks:
    """All checks together: where one refuses, the others have not taken anything."""

    def __init__(self, each: Sequence[StartCheck] = ()) -> None:
        self._each = tuple(each)
        # Most checks look at some of the steps only, and these are taken for every task.
        self._on_admit = _that_override("admit", self._each)
        self._on_claimed = _that_override("claimed", self._each)
        self._on_call = _that_override("may_call", self._each)
        self._on_called = _that_override("called", self._each)
        self._on_ended = _that_override("ended", self._each)

    def are_free(self, tenants: Iterable[str]) -> bool:
        """Whether whatever these tenants have would most likely be admitted."""
        return all(check.is_free(each) for each in tenants for check in self._each)

    def admitting(self) -> Callable[[Entry], bool]:
        """The question for each of the entries that are chosen now: most of the time that is one
        check, or none."""
        busy = self._busy()
        if len(busy) == 1:
            return busy[0].admit
        return self.admit if busy else everyone

    def admitting_at_once(self) -> AdmitFirst[Entry]:
        """The same question for many together, where it is one check that has to be asked."""
        busy = self._busy()
        return busy[0].admit_first if len(busy) == 1 else none_at_once

    def _busy(self) -> list[StartCheck]:
        return [check for check in self._on_admit if not check.is_idle()]

    def admits_all(self, tenant_id: str) -> bool:
        """Whether `admit` would say yes to whatever this tenant has, and take nothing for it."""
        for check in self._on_admit:  # noqa: SIM110 - as below
            if not check.is_idle_for(tenant_id):
                return False
        return True

    def admit(self, entry: Entry) -> bool:
        for number, check in enumerate(self._each):
            if not check.admit(entry):
                for before in self._each[:number]:
                    before.missed((entry.key,))
                return False
        return True

    def is_plain(self, entry: Entry) -> bool:
        for check in self._on_admit:  # noqa: SIM110 - as below
            if not check.is_plain(entry):
                return False
        return True

    def missed(self, keys: Iterable[TaskKey]) -> None:
        if self._each:
            keys = list(keys)
            for check in self._each:
                check.missed(keys)

    def unanswered(self, keys: Sequence[TaskKey]) -> None:
        for check in self._each:
            check.unanswered(keys)

    def refused(self, deliveries: Sequence[Delivery]) -> set[TaskKey]:
        """Which of the claimed ones must not start."""
        # Every check is told, whatever the others say: all of them will be told of the end.
        refused: set[TaskKey] = set()
        for check in self._on_claimed:
            refused.update(check.refused(deliveries))
        return refused

    def may_call(self, delivery: Delivery) -> bool:
        for check in self._on_call:  # noqa: SIM110 - a generator costs more than the checks do
            if not check.may_call(delivery):
                return False
        return True

    def called(self, report: Report) -> None:
        for check in self._on_called:
            check.called(report)

    def ended(self, reports: Sequence[Report]) -> None:
        for check in self._on_ended:
            check.all_ended(reports)


_C = TypeVar("_C", bound=StartCheck)


def _that_override(step: str, checks: Sequence[_C]) -> tuple[_C, ...]:
    return tuple(c for c in checks if getattr(type(c), step) is not getattr(StartCheck, step))

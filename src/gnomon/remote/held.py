"""Deliveries that a worker has taken, and reports that the gateway has not acknowledged."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple
from uuid import UUID

import msgspec
from msgspec.structs import replace

from gnomon.node.held_tasks import HeldTasks
from gnomon.pipe.envelope import Delivery, Report
from gnomon.pipe.http.messages import MOST_REPORTS, ReportReceipt, TaskClaim
from gnomon.remote.messages import report_of

MOST_REPORT_BYTES = 4 * 1024 * 1024
_Key = tuple[UUID, int]  # of a task, and its fence
_encode = msgspec.json.Encoder().encode


class AcknowledgedReports(NamedTuple):
    """Reports that were acknowledged."""

    reports: list[Report]
    refused: list[Report]  # those of them that were stale


class _Held(msgspec.Struct, eq=False, gc=False):
    """A delivery that was taken, and its report once there is one."""

    delivery: Delivery
    claim: TaskClaim
    report: Report | None = None


class HeldDeliveries:
    """Bounded by the slots, by what is taken ahead, and by what may be reported and not
    acknowledged: a delivery is held until its report is."""

    def __init__(self, tasks: HeldTasks) -> None:
        self._tasks = tasks
        self._held: dict[_Key, _Held] = {}
        self._reports = 0  # how many of these have one
        self._unheard: dict[_Key, msgspec.Raw] = {}  # reports, as the gateway is told them

    def __len__(self) -> int:
        return len(self._held)

    @property
    def unreported(self) -> int:
        return len(self._held) - self._reports

    @property
    def has_reports(self) -> bool:
        return self._reports > 0

    def claims(self) -> tuple[TaskClaim, ...]:
        """All that it has, and that is not acknowledged."""
        return tuple([held.claim for held in self._held.values()])

    def take(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Hold these; gives those that are new."""
        new = []
        for delivery in deliveries:
            key = delivery.key.id, delivery.fence
            if key not in self._held:
                self._held[key] = _Held(delivery, TaskClaim(*key))
                self._tasks.fences[delivery.key] = delivery.fence
                new.append(delivery)
        return new

    def not_reported(self, claim: TaskClaim) -> Delivery | None:
        """The one of this task and fence, if it is held and has not ended."""
        held = self._held.get((claim.task_id, claim.fence))
        return None if held is None or held.report is not None else held.delivery

    def reported(self, reports: Iterable[Report]) -> None:
        """Keep these until they are acknowledged, without the payloads that they are about: how
        many there are is bounded, and not by bytes."""
        for report in reports:
            key = report.delivery.key.id, report.delivery.fence
            held = self._held[key]
            if held.report is None:
                self._reports += 1
            if held.delivery.payload is not None:
                held.delivery = replace(held.delivery, payload=None)
            held.report = replace(report, delivery=held.delivery)
            self._unheard[key] = _message(report)

    # What the gateway has heard

    def to_send(self) -> list[msgspec.Raw]:
        """The oldest reports that the gateway has not heard, as many as fit into a poll."""
        messages: list[msgspec.Raw] = []
        size = 0
        for message in self._unheard.values():
            size += len(bytes(message))
            if messages and (len(messages) >= MOST_REPORTS or size > MOST_REPORT_BYTES):
                break
            messages.append(message)
        return messages

    def heard(self, sent: int) -> None:
        """The gateway has answered a poll with the first so many of these: it keeps them until they
        are written."""
        for key in list(islice(self._unheard, sent)):
            del self._unheard[key]

    def say_again(self, claim: TaskClaim) -> None:
        """The gateway does not know this one: what was reported of it is sent again."""
        held = self._held.get((claim.task_id, claim.fence))
        if held is not None and held.report is not None:
            self._unheard[claim.task_id, claim.fence] = _message(held.report)

    def say_all_again(self) -> None:
        """Another gateway has heard nothing yet."""
        reports = {key: held.report for key, held in self._held.items()}
        self._unheard = {key: _message(each) for key, each in reports.items() if each is not None}

    def acknowledged(self, answers: Sequence[ReportReceipt]) -> AcknowledgedReports:
        """Forget what these are about."""
        settled, refused = [], []
        fences = self._tasks.fences
        for answer in answers:
            key = answer.task_id, answer.fence
            held = self._held.get(key)
            if held is None or held.report is None:
                continue  # acknowledged before, or never reported
            del self._held[key]
            self._unheard.pop(key, None)
            task = held.delivery.key
            if fences.get(task) == answer.fence:
                del fences[task]
            settled.append(held.report)
            if not answer.accepted:
                refused.append(held.report)
        self._reports -= len(settled)
        return AcknowledgedReports(settled, refused)


def _message(report: Report) -> msgspec.Raw:
    return msgspec.Raw(_encode(report_of(report)))

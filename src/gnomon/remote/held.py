"""Deliveries that a worker has taken, and reports that the gateway has not acknowledged."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from gnomon.node.held_tasks import HeldTasks
from gnomon.pipe.envelope import Delivery, Report
from gnomon.pipe.http.messages import MOST_REPORTS, ReportReceipt, TaskClaim
from gnomon.remote.messages import claim_of, report_of

MOST_REPORT_BYTES = 4 * 1024 * 1024
_encode = msgspec.json.Encoder().encode


class _KeptReport(NamedTuple):
    """A report, and the same as the gateway is told it."""

    report: Report
    message: msgspec.Raw


class AcknowledgedReports(NamedTuple):
    """Reports that were acknowledged."""

    reports: list[Report]
    refused: list[Report]  # those of them that were stale


class HeldDeliveries:
    """Bounded by the slots and what is taken ahead: a delivery counts there until its report is
    acknowledged."""

    def __init__(self, tasks: HeldTasks) -> None:
        self._tasks = tasks
        self._held: dict[TaskClaim, Delivery] = {}
        self._reports: dict[TaskClaim, _KeptReport] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._held)

    @property
    def has_reports(self) -> bool:
        return bool(self._reports)

    def claims(self) -> tuple[TaskClaim, ...]:
        """All that it has, and that is not acknowledged."""
        return tuple(self._held)

    def take(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Hold these; gives those that are new."""
        new = []
        for delivery in deliveries:
            fence = claim_of(delivery)
            if fence not in self._held:
                self._held[fence] = delivery
                self._tasks.fences[delivery.key] = delivery.fence
                new.append(delivery)
        return new

    def delivery(self, fence: TaskClaim) -> Delivery | None:
        """The one of this task and fence, if it is held."""
        return self._held.get(fence)

    def reported(self, reports: Iterable[Report]) -> None:
        """Keep these until they are acknowledged."""
        for report in reports:
            message = msgspec.Raw(_encode(report_of(report)))
            self._reports[claim_of(report.delivery)] = _KeptReport(report, message)

    def to_send(self) -> list[msgspec.Raw]:
        """The oldest reports, as many as fit into a poll."""
        messages: list[msgspec.Raw] = []
        size = 0
        for kept in self._reports.values():
            size += len(bytes(kept.message))
            if messages and (len(messages) >= MOST_REPORTS or size > MOST_REPORT_BYTES):
                break
            messages.append(kept.message)
        return messages

    def acknowledged(self, answers: Sequence[ReportReceipt]) -> AcknowledgedReports:
        """Forget what these are about."""
        settled, refused = [], []
        for answer in answers:
            fence = TaskClaim(answer.task_id, answer.fence)
            kept = self._reports.pop(fence, None)
            if kept is None:
                continue  # acknowledged before, or never reported
            delivery = self._held.pop(fence).key
            if self._tasks.fences.get(delivery) == fence.fence:
                del self._tasks.fences[delivery]
            settled.append(kept.report)
            if not answer.accepted:
                refused.append(kept.report)
        return AcknowledgedReports(settled, refused)

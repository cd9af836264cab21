"""Knows how long tasks of each flow have run lately, and so how many can start within a moment."""

from collections import deque
from collections.abc import Sequence

from gnomon.fairness.ready_queue import Flow
from gnomon.node.start_checks import StartCheck
from gnomon.pipe.envelope import Report, seconds_of
from gnomon.store.ports.dispatch import Entry

MOMENT = 0.2  # seconds: claiming them at the instant takes longer
_LEAST_SECONDS = 8e-6  # that a slot needs for a task, however short it is
_SAMPLE = 32  # of a batch or a herd: looking at all of them would cost more than it tells
_KEPT = 64  # executions of a flow
_ENOUGH = 4  # of them, before anything is said of it
_FLOWS = 1000


class ShortFlows(StartCheck):
    """Refuses nothing: it listens to what has ended."""

    def __init__(self) -> None:
        self._seconds: dict[Flow, deque[float]] = {}  # the flow that was last heard of is last

    def is_idle(self) -> bool:
        return True

    def ended(self, report: Report) -> None:
        self.all_ended([report])

    def all_ended(self, reports: Sequence[Report]) -> None:
        sample = reports[:: len(reports) // _SAMPLE + 1]
        for report, seconds in zip(sample, seconds_of(sample), strict=True):
            if seconds is not None:
                flow = report.delivery.key.tenant_id, report.delivery.flow
                known = self._seconds.pop(flow, None)
                self._seconds[flow] = known = known or deque(maxlen=_KEPT)
                known.append(seconds)
        while len(self._seconds) > _FLOWS:
            del self._seconds[next(iter(self._seconds))]

    def startable(self, entries: Sequence[Entry]) -> int:
        """How many such tasks the slots can start one after the other within a moment. None, where
        it is not known of all of them. Tasks that wait for something run beside each other, and
        more of them could: but whether they wait is not known."""
        sample = entries[:: len(entries) // _SAMPLE + 1]
        flows = [(e.key.tenant_id, e.flow) for e in sample]
        usual = {flow: self._usual(flow) for flow in set(flows)}
        total = 0.0
        for flow in flows:
            seconds = usual[flow]
            if seconds is None:
                return 0
            total += seconds
        return int(MOMENT * len(flows) / total) if flows else 0

    def _usual(self, flow: Flow) -> float | None:
        """Seconds that few of its tasks have exceeded."""
        known = self._seconds.get(flow)
        if known is None or len(known) < _ENOUGH:
            return None
        return max(_LEAST_SECONDS, sorted(known)[len(known) * 3 // 4])

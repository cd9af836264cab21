"""The last look at a delivery, right before it goes to its session."""

from collections.abc import Callable

from gnomon.clock import Clock
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.node.membership.lease import Lease
from gnomon.node.start_checks import StartChecks
from gnomon.pipe.envelope import Delivery, Report
from gnomon.pipe.http.session import WorkerSession
from gnomon.pipe.meeting.frames import LARGEST_CARRIED_PAYLOAD

Refusal = Callable[[Delivery], Outcome | None]  # of what its tenant may not call


class DeliveryGate:
    """Asks what a slot asks before it makes a call."""

    def __init__(self, checks: StartChecks, refusal: Refusal, lease: Lease, clock: Clock) -> None:
        self._checks = checks
        self._refusal = refusal
        self._lease = lease
        self._clock = clock

    def is_open(self, session: WorkerSession) -> bool:
        """Whether anything may go to it now."""
        monotonic = self._clock.monotonic()
        return session.trusted_until >= monotonic and self._lease.is_trusted(monotonic)

    def barred(
        self, session: WorkerSession, delivery: Delivery, now: float, *, is_open: bool
    ) -> Report | None:
        """Its report, where it may not go."""
        refused = self._refusal(delivery) or (_too_large(delivery) if session.carried else None)
        if refused is not None:
            return Report(delivery, refused, now, now)
        if not is_open or delivery.start_by < now or not self._checks.may_call(delivery):
            return Report(delivery)
        return None

    def called(self, report: Report) -> None:
        """An execution has ended, and is not settled yet."""
        self._checks.called(report)


def _too_large(delivery: Delivery) -> Outcome | None:
    """It would keep what is delivered with it from its worker, again and again."""
    size = len(delivery.payload or b"")
    if size <= LARGEST_CARRIED_PAYLOAD:
        return None
    error = (
        f"its payload of {size} bytes does not go through the broker that its worker is behind:"
        f" {LARGEST_CARRIED_PAYLOAD} is the most. Store it elsewhere and submit where it is, or use"
        " a queue that only workers over HTTP serve"
    )
    return Outcome(OutcomeKind.FAILED, error=error, retryable=False, uncalled=True)

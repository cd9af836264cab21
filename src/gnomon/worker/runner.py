"""One try at a task: fetch what is missing, call the target within its time, say what happened."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog

from gnomon.clock import Clock
from gnomon.model.errors import StoreUnavailable
from gnomon.model.outcome import Outcome, OutcomeKind
from gnomon.model.target import Target
from gnomon.model.task import TaskKey
from gnomon.pipe.envelope import Delivery, Report
from gnomon.worker.targets import Caller

log = structlog.get_logger("gnomon.worker")

FetchPayload = Callable[[TaskKey], Awaitable[bytes | None]]


class Try:
    """A try under way: what can end it before its time."""

    __slots__ = ("_scope", "reason")

    def __init__(self, scope: asyncio.Timeout) -> None:
        self._scope = scope
        self.reason: str | None = None

    def interrupt(self, reason: str) -> None:
        """End it now. The slot that runs it goes on with the next task."""
        if self.reason is None:
            self.reason = reason
            self._scope.reschedule(asyncio.get_running_loop().time())


class Runner:
    """Runs deliveries, and knows which ones it is running."""

    def __init__(
        self, callers: Mapping[type[Target], Caller], fetch_payload: FetchPayload, clock: Clock
    ) -> None:
        self._callers = callers
        self._fetch_payload = fetch_payload
        self._clock = clock
        self.running: dict[TaskKey, Try] = {}

    async def run(self, delivery: Delivery) -> Report:
        """Make one try. Gives a report whatever happens, and raises only when cancelled."""
        started_at = self._clock.now()
        outcome = await self._within_its_time(delivery)
        return Report(delivery, outcome, started_at, self._clock.now())

    async def _within_its_time(self, delivery: Delivery) -> Outcome:
        scope = asyncio.timeout(delivery.timeout_seconds)
        attempt = self.running[delivery.key] = Try(scope)
        try:
            async with scope:
                return await self._call(delivery)
        except TimeoutError:
            if attempt.reason is not None:
                return Outcome(OutcomeKind.CANCELLED, error=attempt.reason)
            error = f"did not end within {delivery.timeout_seconds:g} s"
            return Outcome(OutcomeKind.TIMED_OUT, error=error)
        finally:
            del self.running[delivery.key]

    async def _call(self, delivery: Delivery) -> Outcome:
        try:
            payload = delivery.payload
            if delivery.payload_size is not None:
                payload = await self._fetch_payload(delivery.key)
            return await self._callers[type(delivery.target)].call(delivery, payload)
        except StoreUnavailable as error:
            return Outcome(OutcomeKind.FAILED, error=f"the payload could not be read: {error}")
        except TimeoutError as error:
            # The target's own, not the scope's: that one only surfaces outside of it.
            return Outcome(OutcomeKind.FAILED, error=f"TimeoutError: {error}")
        except Exception as error:
            log.exception("a target failed inside Gnomon", task_id=str(delivery.key.id))
            return Outcome(OutcomeKind.FAILED, error=f"internal error: {type(error).__name__}")

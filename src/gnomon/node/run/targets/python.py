"""Handlers in the process of the node: async ones run on its loop, others in a thread."""

import asyncio
import math
from collections.abc import Awaitable, Callable

import msgspec

from gnomon.model.outcomes.outcome import SUCCESS, Outcome, OutcomeKind
from gnomon.model.targets.target import PythonTarget, Target
from gnomon.model.tasks.retry import LONGEST_RETRY_AFTER, LONGEST_WAIT
from gnomon.model.tasks.task import DeliveryMode
from gnomon.model.text import storable
from gnomon.node.run.handler_log import tell_left_out
from gnomon.node.run.targets import MayBegin, Place, always
from gnomon.node.run.threads import Threads, TooManyHung
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.app import Gnomon
from gnomon.sdk.declaring.handler import Runs
from gnomon.sdk.errors import UnknownHandler
from gnomon.sdk.executing.context import TaskContext, current, stored_result
from gnomon.sdk.executing.failure import MAX_ERROR, describe, traceback_of
from gnomon.sdk.executing.remote_span import enter_trace, leave_trace
from gnomon.sdk.signals import RETRIES, SNOOZES, Reject, Retry, Snooze, signal_in

_NEVER_AGAIN = "asked to be called again, which at_most_once never is"
_UNCOMMITTED = Outcome(
    OutcomeKind.FAILED,
    error="the handler completed its task in a transaction that was not committed",
)


class PythonCaller:
    """`Caller` for `python` targets, which are the handlers of an app. Use as a context manager: it
    owns the threads. The app is to be running. `may_begin` is asked before each handler that has
    waited: for a thread, its transaction, middleware, or dependencies, those in its thread
    included. One that may not begin and never has is not called: then `call` gives None."""

    def __init__(self, app: Gnomon, threads: int, may_begin: MayBegin = always) -> None:
        self._execute = app.execute
        self._handlers = app.handlers
        self._may_begin = may_begin
        self._threads = Threads(threads)
        self._thread = Place("threads", threads)

    @property
    def least_room(self) -> float:
        blocks = any(handler.runs is Runs.THREAD for handler in self._handlers.values())
        return self._thread.room if blocks else math.inf

    def place(self, target: Target) -> Place | None:
        assert isinstance(target, PythonTarget)
        handler = self._handlers.get(target.function)
        return self._thread if handler is not None and handler.runs is Runs.THREAD else None

    def ready(self, delivery: Delivery) -> None:
        """Nothing to prepare: an execution that may start has a thread."""

    def __enter__(self) -> "PythonCaller":
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.close()

    async def call(
        self, delivery: Delivery, payload: bytes | None, run: TaskContext
    ) -> Outcome | None:
        assert isinstance(delivery.target, PythonTarget)
        name = delivery.target.function
        run.may_begin = self._may_begin
        token = None if delivery.origin is None else enter_trace(delivery.origin)
        try:
            returned = await self._execute(name, payload, run, self._in_thread)
        except (asyncio.CancelledError, GeneratorExit, TooManyHung):
            raise  # a GeneratorExit may be the end of this coroutine, which only its owner can tell
        except BaseException as error:  # noqa: BLE001 - whatever it is, it fails this execution alone
            known = not isinstance(error, UnknownHandler) or name in self._handlers
            outcome = outcome_of(error, run) if known else self._unknown(name)
        else:
            spawns = run.spawns
            if returned is None and spawns is None:
                outcome = SUCCESS
            else:
                result = None if returned is None else stored_result(returned)
                outcome = Outcome(OutcomeKind.SUCCEEDED, result=result, spawns=spawns)
        finally:
            if token is not None:
                leave_trace(token)
            if run.log_lines is not None:
                tell_left_out(run)
        if run.refused and not run.called:  # `unbegun`, which would be one more call for each
            return None
        return _if_uncommitted(outcome) if run.completed else outcome

    def _in_thread(self, function: Callable[[], object]) -> Awaitable[object]:
        context = current.get()
        assert context is not None, "only an execution calls what blocks"
        context.in_thread = True
        return self._threads.run(function)

    def _unknown(self, name: str) -> Outcome:
        known = ", ".join(sorted(self._handlers)) or "none: its setting node.app names no app"
        return Outcome(
            OutcomeKind.FAILED, error=f"this node has no handler {name!r} (it has: {known})"
        )


def outcome_of(error: BaseException, run: TaskContext) -> Outcome:
    """The outcome of an execution whose handler raised this."""
    signal = signal_in(error)
    match signal:
        case Snooze():
            return _snoozed(signal, run)
        case Retry():
            return _retried(signal, error)
        case _:
            return Outcome(
                OutcomeKind.FAILED,
                error=describe(signal),
                retryable=not isinstance(signal, Reject),
                traceback=traceback_of(error),
            )


def _snoozed(snooze: Snooze, run: TaskContext) -> Outcome:
    seconds = _seconds_of(snooze, LONGEST_WAIT)
    if seconds is None:
        return _misused(snooze, SNOOZES)
    once = run.mode is DeliveryMode.AT_MOST_ONCE
    return Outcome(
        OutcomeKind.SNOOZED,
        error=_NEVER_AGAIN if once else None,  # a dead letter needs a reason
        retry_after=seconds,
    )


def _retried(retry: Retry, raised: BaseException) -> Outcome:
    waits = getattr(retry, "seconds", None) is not None
    seconds = _seconds_of(retry, LONGEST_RETRY_AFTER) if waits else None
    if waits and seconds is None:
        return _misused(retry, RETRIES)
    return Outcome(
        OutcomeKind.FAILED,
        error=describe(retry),
        retry_after=seconds,
        overrides_policy=waits,
        traceback=traceback_of(raised),
    )


def _seconds_of(signal: Snooze | Retry, longest: float) -> float | None:
    """The wait that was asked for, which a subclass may have set to anything."""
    seconds: object = getattr(signal, "seconds", None)
    if not isinstance(seconds, int | float) or not 0 <= seconds <= longest:
        return None
    return float(seconds)


def _misused(signal: Snooze | Retry, rule: str) -> Outcome:
    detail = f"{type(signal).__name__}: {rule}"
    return Outcome(OutcomeKind.FAILED, error=storable(detail[:MAX_ERROR]))


def _if_uncommitted(outcome: Outcome) -> Outcome:
    """Whether the handler's transaction was committed, only the store can tell (the answer may
    have been lost): so this is what holds if it was not, and is refused if it was."""
    if outcome.kind is OutcomeKind.SUCCEEDED:
        outcome = _UNCOMMITTED
    return msgspec.structs.replace(outcome, completed_by_handler=True)

"""Python functions, named in the node's settings: async ones run on the loop, others in a thread.

A function takes the payload, decoded from JSON, and may return anything that JSON can hold. One
whose second parameter has no default gets the `TaskContext` there.
"""

import asyncio
import importlib
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gnomon.model.outcome import SUCCESS, Outcome, OutcomeKind
from gnomon.model.retry import LONGEST_WAIT
from gnomon.model.target import PythonTarget, Target
from gnomon.model.task import DeliveryMode
from gnomon.model.text import storable
from gnomon.node.run.targets import Place
from gnomon.node.run.threads import Threads, TooManyHung
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.context import TaskContext, stored_result
from gnomon.sdk.failure import MAX_ERROR, describe
from gnomon.sdk.signals import SNOOZES, Reject, Snooze
from gnomon.settings import SettingsError

Function = Callable[..., Any]

_NEVER_AGAIN = "asked to be called again, which at_most_once never is"
_UNCOMMITTED = Outcome(
    OutcomeKind.FAILED,
    error="the function completed its task in a transaction that was not committed",
)


def load_functions(paths: Mapping[str, str]) -> dict[str, Function]:
    """Import every function that the settings name."""
    return {name: _load(name, path) for name, path in paths.items()}


def _load(name: str, path: str) -> Function:
    module_name, _, attribute = path.partition(":")
    if not attribute:
        raise SettingsError(f"function {name!r}: {path!r} must be package.module:function")
    try:
        function = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"function {name!r} cannot be loaded: {error}") from error
    if not callable(function):
        raise SettingsError(f"function {name!r}: {path} is not callable")
    loaded: Function = function
    return loaded


def takes_run(name: str, function: Function) -> bool:
    """Whether the function wants the `TaskContext` after the payload."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # written in C, and says nothing of itself
        return False
    by_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    unfit = any(
        p.kind is p.VAR_POSITIONAL or (p.kind is p.KEYWORD_ONLY and p.default is p.empty)
        for p in parameters
    )
    if unfit or len(by_place) not in (1, 2):
        raise SettingsError(
            f"function {name!r} must take one parameter, the payload, or two, the payload and "
            f"the run; it takes {inspect.signature(function)}"
        )
    return len(by_place) == 2 and by_place[1].default is inspect.Parameter.empty


class PythonCaller:
    """`Caller` for `python` targets. Use as a context manager: it owns the threads."""

    def __init__(self, functions: Mapping[str, Function], threads: int) -> None:
        self._functions = functions
        self._async = {n for n, f in functions.items() if inspect.iscoroutinefunction(f)}
        self._told = {n for n, f in functions.items() if takes_run(n, f)}
        self._threads = Threads(threads)
        self._thread = Place("threads", threads)

    @property
    def least_room(self) -> float:
        return self._thread.room if self._functions.keys() > self._async else math.inf

    def place(self, target: Target) -> Place | None:
        assert isinstance(target, PythonTarget)
        in_thread = target.function in self._functions and target.function not in self._async
        return self._thread if in_thread else None

    def ready(self, delivery: Delivery) -> None:
        """Nothing to prepare: an execution that may start has a thread."""

    def __enter__(self) -> "PythonCaller":
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.close()

    async def call(self, delivery: Delivery, payload: bytes | None, run: TaskContext) -> Outcome:
        assert isinstance(delivery.target, PythonTarget)
        name = delivery.target.function
        function = self._functions.get(name)
        if function is None:
            known = ", ".join(sorted(self._functions)) or "none"
            return Outcome(
                OutcomeKind.FAILED, error=f"this node has no function {name!r} (it has: {known})"
            )
        outcome = await self._outcome(name, function, payload, run)
        return _if_uncommitted(outcome) if run.completed else outcome

    async def _outcome(
        self, name: str, function: Function, payload: bytes | None, run: TaskContext
    ) -> Outcome:
        argument = None if payload is None else msgspec.json.decode(payload)
        arguments = (argument, run) if name in self._told else (argument,)
        slot = asyncio.current_task()
        try:
            if name in self._async:
                returned = await function(*arguments)
            else:
                run.in_thread = True
                returned = await self._threads.run(function, *arguments)
        except Snooze as snooze:
            return _snoozed(snooze, run)
        except Reject as error:
            return Outcome(OutcomeKind.FAILED, error=describe(error), retryable=False)
        except (asyncio.CancelledError, TooManyHung):
            raise
        except BaseException as error:
            if isinstance(error, GeneratorExit) and asyncio.current_task() is not slot:
                raise  # this coroutine is being closed, from outside
            return Outcome(OutcomeKind.FAILED, error=describe(error))
        if returned is None:
            return SUCCESS
        return Outcome(OutcomeKind.SUCCEEDED, result=stored_result(returned))


def _snoozed(snooze: Snooze, run: TaskContext) -> Outcome:
    seconds = getattr(snooze, "seconds", None)  # which a subclass may have set to anything
    if not isinstance(seconds, int | float) or not 0 <= seconds <= LONGEST_WAIT:
        detail = f"{type(snooze).__name__}: {SNOOZES}"
        return Outcome(OutcomeKind.FAILED, error=storable(detail[:MAX_ERROR]))
    once = run.mode is DeliveryMode.AT_MOST_ONCE
    return Outcome(
        OutcomeKind.SNOOZED,
        error=_NEVER_AGAIN if once else None,  # a dead letter needs a reason
        retry_after=float(seconds),
    )


def _if_uncommitted(outcome: Outcome) -> Outcome:
    """Whether the function's transaction was committed, only the store can tell (the answer may
    have been lost): so this is what holds if it was not, and is refused if it was."""
    if outcome.kind is OutcomeKind.SUCCEEDED:
        outcome = _UNCOMMITTED
    return msgspec.structs.replace(outcome, completed_by_handler=True)

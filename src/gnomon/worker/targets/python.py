"""Python functions, named in the node's settings: async ones run on the loop, others in a thread.

A function takes the payload, decoded from JSON, and may return anything that JSON can hold.
"""

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gnomon.model.outcome import SUCCESS, Outcome, OutcomeKind
from gnomon.model.retry import LONGEST_WAIT
from gnomon.model.target import PythonTarget
from gnomon.pipe.envelope import Delivery
from gnomon.settings import SettingsError
from gnomon.worker.threads import Threads

MAX_RESULT_BYTES = 64 * 1024

Function = Callable[[Any], Any]


class Snooze(Exception):
    """Raise it to be called again later, without spending a retry."""

    def __init__(self, seconds: float) -> None:
        if not 0 <= seconds <= LONGEST_WAIT:
            raise ValueError(f"a snooze lasts between 0 and {LONGEST_WAIT:g} s; got {seconds!r}")
        super().__init__(f"snoozed for {seconds} s")
        self.seconds = seconds


class Reject(Exception):
    """Raise it when no retry can help: the task becomes a dead letter at once."""


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


class PythonCaller:
    """`Caller` for `python` targets. Use as a context manager: it owns the threads."""

    def __init__(self, functions: Mapping[str, Function], threads: int) -> None:
        self._functions = functions
        self._async = {n for n, f in functions.items() if inspect.iscoroutinefunction(f)}
        self._threads = Threads(threads)

    def __enter__(self) -> "PythonCaller":
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.close()

    async def call(self, delivery: Delivery, payload: bytes | None) -> Outcome:
        assert isinstance(delivery.target, PythonTarget)
        name = delivery.target.function
        function = self._functions.get(name)
        if function is None:
            known = ", ".join(sorted(self._functions)) or "none"
            return Outcome(
                OutcomeKind.FAILED, error=f"this node has no function {name!r} (it has: {known})"
            )
        argument = None if payload is None else msgspec.json.decode(payload)
        try:
            if name in self._async:
                returned = await function(argument)
            else:
                returned = await self._threads.run(function, argument)
        except Snooze as snooze:
            return Outcome(OutcomeKind.SNOOZED, retry_after=snooze.seconds)
        except Reject as error:
            return Outcome(OutcomeKind.FAILED, error=_describe(error), retryable=False)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever user code raises
            return Outcome(OutcomeKind.FAILED, error=_describe(error))
        return SUCCESS if returned is None else _with_result(returned)


def _with_result(returned: Any) -> Outcome:
    try:
        result = msgspec.json.encode(returned)
    except (TypeError, ValueError, RecursionError) as error:
        # The work was done, so doing it again would be wrong; the result alone is lost.
        return Outcome(
            OutcomeKind.SUCCEEDED, result=_note(f"the result cannot be kept as JSON: {error}")
        )
    if len(result) > MAX_RESULT_BYTES:
        return Outcome(
            OutcomeKind.SUCCEEDED,
            result=_note(f"the result has {len(result)} bytes; {MAX_RESULT_BYTES} are kept"),
        )
    return Outcome(OutcomeKind.SUCCEEDED, result=result.decode())


def _note(text: str) -> str:
    return msgspec.json.encode({"gnomon": text}).decode()


def _describe(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}"[:2000]
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}")

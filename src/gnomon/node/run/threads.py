"""Threads for handlers that block: one that does not come back is replaced.

The standard pool cannot do this: a call that hangs keeps one of its threads for good, and all of
them are joined when the process ends.
"""

import asyncio
import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from gnomon.node.run import stacks

_HUNG_PER_THREAD = 10  # so many are replaced for each thread of the limit, and no more


class LeftRunning(stacks.Interrupted):
    """The wait for a call was cancelled. The call cannot be: its thread goes on with it, and
    `returned` is done when it has come back."""

    def __init__(self, returned: "asyncio.Future[None]", where: str | None = None) -> None:
        super().__init__(where)
        self.returned = returned


class TooManyHung(Exception):
    """So many calls never came back that no more are begun. Only a new process can."""

    def __init__(self, hung: int) -> None:
        super().__init__(f"{hung} handlers hang in threads of this node; it can begin no more")


class _Stage(Enum):
    WAITING = auto()
    RUNNING = auto()
    LEFT = auto()  # running, and nobody waits for it
    OVER = auto()


class _Call:
    """One call: made in a thread, waited for on the loop."""

    def __init__(self, function: Callable[..., object], arguments: tuple[object, ...]) -> None:
        self._function = function
        self._arguments = arguments
        self._loop = asyncio.get_running_loop()
        self._value: object = None
        self._error: BaseException | None = None
        self.stage = _Stage.WAITING
        self.thread: int | None = None  # that makes it
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.returned: asyncio.Future[None] = self._loop.create_future()

    def make(self) -> None:
        try:
            self._value = self._function(*self._arguments)
        except StopIteration as error:
            # No coroutine may raise this one.
            told = RuntimeError("the handler raised StopIteration")
            self.refuse(told.with_traceback(error.__traceback__))
        except BaseException as error:  # noqa: BLE001 - it is raised again where the call is awaited
            self.refuse(error)

    def refuse(self, error: BaseException) -> None:
        self._error = error

    def result(self) -> Any:
        """The call's result or its error, once it is over."""
        if self._error is not None:
            raise self._error
        return self._value

    def tell(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody is there to hear it
            self._loop.call_soon_threadsafe(self._told)

    def _told(self) -> None:
        self.returned.set_result(None)
        if not self.ended.done():  # cancelled
            # Without the error: one such as GeneratorExit would be thrown at whoever waits, and
            # close the coroutines on its way.
            self.ended.set_result(None)


class Threads:
    """At most `limit` threads. One whose call nobody waits for any more does not count; when that
    call comes back, a thread too many ends.

    They are daemons: a function that hangs cannot keep the process from ending.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._most_hung = limit * _HUNG_PER_THREAD
        self._waiting: OrderedDict[_Call, None] = OrderedDict()
        self._changed = threading.Condition()  # its lock guards all below, and every call's stage
        self._counted = 0
        self._idle = 0
        self._hung = 0
        self._closed = False

    @property
    def hung(self) -> int:
        return self._hung

    async def run(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Call it in a thread, when one is free. Cancelled before that, the call is not made;
        cancelled later, it raises `LeftRunning`, unless the call has just ended."""
        call = _Call(function, arguments)
        with self._changed:
            self._staff(len(self._waiting) + 1)
            self._waiting[call] = None
        try:
            await call.ended
        except asyncio.CancelledError:
            if self._give_up(call):
                raise LeftRunning(call.returned, stacks.of_thread(call.thread)) from None
            if call.stage is not _Stage.OVER:
                raise
        return call.result()

    def close(self) -> None:
        """Begin nothing more. Calls that run go on; nothing waits for them."""
        with self._changed:
            self._closed = True
            for call in self._waiting:
                call.ended.cancel()
            self._waiting.clear()
            self._changed.notify_all()

    def _staff(self, waiting: int) -> None:
        """Find a thread for one more of the `waiting`."""
        if waiting <= self._idle:
            self._changed.notify()
        elif self._counted < self._limit:
            threading.Thread(target=self._serve, name="gnomon-handler", daemon=True).start()
            self._counted += 1

    def _give_up(self, call: _Call) -> bool:
        """Whether the call goes on without anybody waiting for it."""
        with self._changed:
            self._waiting.pop(call, None)
            if call.stage is not _Stage.RUNNING:
                return False
            call.stage = _Stage.LEFT
            self._hung += 1
            self._counted -= 1
            if self._waiting:
                self._staff(len(self._waiting))
            return True

    # In a thread

    def _serve(self) -> None:
        while (call := self._next()) is not None:
            if self._hung >= self._most_hung:
                call.refuse(TooManyHung(self._hung))
            else:
                call.make()
            self._over(call)
            call.tell()
            del call  # and what it was called with

    def _next(self) -> _Call | None:
        with self._changed:
            while True:
                if self._closed or self._counted > self._limit:
                    self._counted -= 1
                    return None
                if self._waiting:
                    break
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            call, _ = self._waiting.popitem(last=False)
            call.stage = _Stage.RUNNING
            call.thread = threading.get_ident()
            return call

    def _over(self, call: _Call) -> None:
        with self._changed:
            if call.stage is _Stage.LEFT:
                self._hung -= 1
                self._counted += 1
            call.stage = _Stage.OVER

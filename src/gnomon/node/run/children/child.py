"""The child's side: calls functions for the node, until the node has no more use for it.

It must never outlive its node, which may be declared dead while it is stopped: a child that hears
nothing for the length of a lease ends, whatever it runs; and one that was stopped together with its
node begins nothing that it was given before, once the lease may be over. And it must tell that a
call begins before that is true: so frames are written at once, and not when the event loop gets to
it.
"""

import asyncio
import contextlib
import os
import select
import signal
import sys
import threading
from contextlib import AsyncExitStack
from pathlib import Path

from gnomon import loop
from gnomon.clock import SystemClock
from gnomon.node.run import stacks
from gnomon.node.run.children.frames import (
    CallFrame,
    Cancel,
    Cancelled,
    Completing,
    Ended,
    Frames,
    Hello,
    Leave,
    Left,
    Orphaned,
    Ping,
    Pong,
    Progressed,
    Ready,
    Returned,
    Started,
    ToChild,
    ToNode,
    Uncalled,
    Unfit,
    framed,
    frames_to_child,
)
from gnomon.node.run.handler_log import HandlerScope
from gnomon.node.run.parent import die_with_parent
from gnomon.node.run.targets.python import PythonCaller, outcome_of
from gnomon.node.run.threads import LeftRunning
from gnomon.observe import logging
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.app import Gnomon
from gnomon.sdk.declaring.loading import load_app
from gnomon.sdk.executing.context import Progress, TaskContext
from gnomon.sdk.executing.failure import describe

_PROGRESS_SECONDS = 0.5  # between looks at what the handlers have reported
_READ_BYTES = 1 << 16
_clock = SystemClock()


class Wire:
    """The pipes to the node. Any thread may send."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._lock = threading.Lock()
        self._frames: Frames[ToChild] = frames_to_child()

    def send(self, message: ToNode) -> None:
        data = memoryview(framed(message))
        with self._lock:
            try:
                while data:
                    data = data[os.write(self._sink, data) :]
            except OSError:  # the node is gone
                os._exit(1)

    def receive(self, seconds: float | None) -> list[ToChild]:
        """The next frames, once there are any. Ends the process with its node, or when that has not
        been heard of for so long."""
        readable, _, _ = select.select([self._source], [], [], seconds)
        if not readable:
            self.send(Orphaned())
            os._exit(1)
        data = os.read(self._source, _READ_BYTES)
        if not data:
            os._exit(0)
        return list(self._frames.feed(data))


class ChildRun(TaskContext):
    """An execution whose node must know, whatever becomes of this process, that the handler was
    about to complete its task."""

    __slots__ = ("_completed", "_number", "_wire", "told", "where")

    def __init__(self, delivery: Delivery, number: int, wire: Wire) -> None:
        self._wire = wire
        self._number = number
        self._completed = False
        self.where: str | None = None  # its stack when it was told to stop
        self.told: Progress | None = None  # to the node
        super().__init__(delivery)
        self.begin(_clock.seconds() + delivery.timeout_seconds, _clock.seconds)

    @property
    def completed(self) -> bool:
        return self._completed

    @completed.setter
    def completed(self, completed: bool) -> None:
        if completed != self._completed:
            self._completed = completed
            self._wire.send(Completing(self._number, completed))


class NodeTrust:
    """Until when the node has a lease, as far as it has told. Both read the same clock."""

    def __init__(self) -> None:
        self.until = float("-inf")

    def holds(self) -> bool:
        return _clock.monotonic() < self.until


class Server:
    """Calls what it is told to, all at once."""

    def __init__(
        self, wire: Wire, caller: PythonCaller, trust: NodeTrust, silence_seconds: float
    ) -> None:
        self._wire = wire
        self._caller = caller
        self._trust = trust
        self._silence = silence_seconds
        self._left = asyncio.Event()
        self._calls: dict[int, tuple[asyncio.Task[None], ChildRun]] = {}

    async def run(self) -> None:
        """Until the node has no more use for it. Mostly the process ends before, from within
        `Wire.receive`."""
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._listen, name="gnomon-node", daemon=True).start()
        self._wire.send(Ready())
        while not await _clock.wait(self._left, _PROGRESS_SECONDS):
            self._tell_progress()

    def _tell_progress(self) -> None:
        for number, (_, run) in self._calls.items():
            if run.reported is not None and run.reported is not run.told:
                run.told = run.reported
                self._wire.send(Progressed(number, run.reported))

    def _listen(self) -> None:
        """In a thread, so that a function that blocks the loop does not outlive the node."""
        while True:
            for message in self._wire.receive(self._silence):
                if isinstance(message, Ping | CallFrame):
                    self._trust.until = message.trusted_until
                self._loop.call_soon_threadsafe(self._heard, message)

    def _heard(self, message: ToChild) -> None:
        match message:
            case Ping():
                self._wire.send(Pong())
            case Leave():
                self._left.set()
            case CallFrame(number=number):
                run = ChildRun(message.delivery, number, self._wire)
                task = self._loop.create_task(self._make(message, run))
                self._calls[number] = task, run
                task.add_done_callback(lambda _: self._made(number))
            case Cancel(number=number):
                if number in self._calls:
                    self._stop(*self._calls[number])

    def _stop(self, task: "asyncio.Task[None]", run: ChildRun) -> None:
        run.tell_to_stop()
        run.where = stacks.of_coroutine(task.get_coro())
        task.cancel()

    async def _make(self, call: CallFrame, run: ChildRun) -> None:
        if not self._trust.holds():
            self._wire.send(Uncalled(call.number))
            return
        self._wire.send(Started(call.number))
        self._wire.send(await self._outcome(call, run))

    def _made(self, number: int) -> None:
        task, _ = self._calls.pop(number)
        if task.cancelled():  # before its first step
            self._wire.send(Cancelled(number))

    async def _outcome(self, call: CallFrame, run: ChildRun) -> ToNode:
        number = call.number
        try:
            outcome = await self._caller.call(call.delivery, call.payload, run)
            return Uncalled(number) if outcome is None else Ended(number, outcome)
        except LeftRunning as left:
            left.returned.add_done_callback(lambda _: self._wire.send(Returned(number)))
            return Left(number, left.where)
        except asyncio.CancelledError:
            return Uncalled(number) if run.unbegun else Cancelled(number, run.where)
        except BaseException as error:  # noqa: BLE001 - as in the node: it fails this call alone
            return Ended(number, outcome_of(error, run))


def main() -> None:
    """Serve the node that is at the other end of stdin and stdout."""
    wire = _take_wire()
    hello = _hello(wire)
    die_with_parent(hello.parent)
    _ignore_signals()
    _be_killed_first()
    logging.configure(hello.output, HandlerScope(hello.output))
    sys.path[:] = hello.path
    try:
        app = load_app(hello.app)
    except BaseException as error:  # noqa: BLE001 - whatever importing user code raises
        wire.send(Unfit(describe(error)))
        os._exit(1)
    trust = NodeTrust()
    with PythonCaller(app, hello.threads, trust.holds) as caller:
        loop.serve(_serve(app, Server(wire, caller, trust, hello.silence_seconds), wire))


async def _serve(app: Gnomon, server: Server, wire: Wire) -> None:
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(app.running())
        except BaseException as error:  # noqa: BLE001 - whatever the app's lifespan raises
            wire.send(Unfit(f"the lifespan of the app has failed: {describe(error)}"))
            os._exit(1)
        await server.run()


def _take_wire() -> Wire:
    """Take the pipes away from whatever the functions print, read and start."""
    source, sink = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    return Wire(source, sink)


def _hello(wire: Wire) -> Hello:
    while not (messages := wire.receive(None)):
        pass  # a part of it
    (hello,) = messages
    assert isinstance(hello, Hello), "the node waits for an answer before it says more"
    return hello


def _ignore_signals() -> None:
    """Ignore signals that are meant for the node, and that terminals and service managers send to
    all of its processes. The node ends its children itself. (With a handler: what a function starts
    would inherit that they are ignored.)"""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)


def _be_killed_first() -> None:
    """Where memory runs out, the kernel should take this process and not the node."""
    with contextlib.suppress(OSError):  # not Linux, or not allowed
        Path("/proc/self/oom_score_adj").write_text("1000")

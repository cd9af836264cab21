"""The node's side of one child process: what it was given, and what becomes of that."""

import asyncio
import contextlib
import os
import signal
import sys
from typing import cast

import structlog

from gnomon.clock import Clock
from gnomon.model.outcomes.quarantine import group_size
from gnomon.model.tasks.task import TaskKey
from gnomon.node.membership.lease import Lease
from gnomon.node.run.children.frames import (
    BadFrame,
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
    frames_to_node,
)
from gnomon.node.run.children.jobs import Died, End, Job, Newcomer, Unstarted
from gnomon.settings import Settings

log = structlog.get_logger("gnomon.node.run")

_LAST_WORDS_SECONDS = 1.0  # for what a process wrote before it died
_OUT = 1


class ChildProcess(asyncio.SubprocessProtocol):
    """One child, from its start to its end. `gone` is set when all that it was given is over."""

    def __init__(self, settings: Settings, clock: Clock, lease: Lease) -> None:
        self._settings = settings
        self._clock = clock
        self._lease = lease
        self._frames: Frames[ToNode] = frames_to_node()
        self._transport: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._expected: dict[TaskKey, Newcomer] = {}  # their calls are to come
        self._jobs: dict[int, Job] = {}
        self._left: dict[int, Job] = {}  # running in threads, and nobody waits for them
        self._exited = asyncio.Event()
        self._drained = asyncio.Event()
        self._code: int | None = None
        self._unfit: str | None = None
        self._closed_why: str | None = None  # why the node ends it
        self._blocked = False
        self._by_node = False
        self._closing = False
        self._garbled = False  # what it writes is not to be understood any more
        self.ready = False
        self.decided = asyncio.Event()  # whether it is ready, or will not be
        self.changed = asyncio.Event()
        self.born_at = clock.monotonic()
        self.idle_since = self.born_at
        self.ignored_since: float | None = None  # being told to stop, by one that it runs
        self.given = 0  # calls, in all
        self._started = 0  # of those
        self.retired = False
        self.unanswered = 0  # pings

    # What it runs

    @property
    def jobs(self) -> list[Job]:
        return list(self._jobs.values())

    @property
    def members(self) -> list[Newcomer]:
        """The tasks that it runs, and those that it is kept for."""
        return [*self._jobs.values(), *self._expected.values()]

    @property
    def left(self) -> int:
        return len(self._left)

    @property
    def fresh(self) -> bool:
        return self.given == 0

    @property
    def takes_more(self) -> bool:
        return not self.retired and not self._exited.is_set()

    def expect(self, newcomer: Newcomer) -> None:
        """Keep a place for it, until it is called, or too late to be."""
        self._expected[newcomer.delivery.key] = newcomer

    def expects(self, key: TaskKey) -> bool:
        return key in self._expected

    def expect_no_more(self, key: TaskKey) -> None:
        self._expected.pop(key, None)

    def forget_late(self) -> None:
        now = self._clock.seconds()
        late = [key for key, each in self._expected.items() if each.delivery.start_by < now]
        for key in late:
            del self._expected[key]

    def give(self, job: Job) -> None:
        """Call it; only once the process is ready, or its start would be the function's time."""
        self.expect_no_more(job.delivery.key)
        self._jobs[job.number] = job
        self.given += 1
        self._send(CallFrame(job.number, job.delivery, job.payload, self._trusted_until))
        job.payload = None

    def cancel(self, job: Job) -> None:
        """Tell a call to end."""
        job.told_at = self._clock.monotonic()
        if job.number in self._jobs:
            self._send(Cancel(job.number))

    def leave(self) -> bool:
        """Have it end by itself, if it can: it is idle."""
        if not self.ready or self.exited or self.members or self._left:
            return False
        self._closing = True
        self._by_node = True
        self._send(Leave())
        return True

    def ping(self) -> None:
        self.unanswered += 1
        self._send(Ping(self._trusted_until))

    @property
    def _trusted_until(self) -> float:
        return float("-inf") if self._lease.lost else self._lease.trusted_until

    # Its life

    async def start(self) -> str | None:
        """Start it; gives why it cannot be, or None once its app is running."""
        loop = asyncio.get_running_loop()
        try:
            await loop.subprocess_exec(
                lambda: self,
                sys.executable,
                "-m",
                "gnomon.node.run.children",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=None,
                start_new_session=True,  # Ctrl-C in a terminal is for the node
            )
        except OSError as error:
            return str(error)
        while not self.ready and not self.exited:
            self.changed.clear()
            await self.changed.wait()
        return None if self.ready else await self._why_unfit()

    async def _why_unfit(self) -> str:
        await self._clock.wait(self._drained, _LAST_WORDS_SECONDS)
        return self._unfit or f"it ended before it was ready: {self.how}"

    def retire(self) -> None:
        """Give it nothing more, and end it when all that it runs is over."""
        self.retired = True
        self.changed.set()

    def close(self, why: str | None = None) -> None:
        """End it, because of something that it did, if there is a reason."""
        self.retired = self._closing = True
        self._closed_why = self._closed_why or why
        if self._transport is not None and self._transport.get_returncode() is None:
            self._kill(self._transport)

    def _kill(self, transport: asyncio.SubprocessTransport) -> None:
        self._kill_group(transport)
        transport.kill()

    def _kill_group(self, transport: asyncio.SubprocessTransport) -> None:
        """What handlers have started in it: it leads a session, and so a group, of its own."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(transport.get_pid(), signal.SIGKILL)

    def close_as_blocked(self, why: str) -> None:
        self._blocked = True
        self.close(why)

    def close_by_node(self, why: str) -> None:
        self._by_node = True
        self.close(why)

    async def wait_gone(self) -> None:
        """Until it has ended, and all that it told has been heard."""
        if self._transport is None:
            return  # it never began
        await self._exited.wait()
        self._kill_group(self._transport)
        # What it has started, and what has left the group, may hold the pipe open.
        await self._clock.wait(self._drained, _LAST_WORDS_SECONDS)
        self._transport.close()

    def conclude(self) -> Died:
        """End all calls that are not over: the process is gone."""
        self.decided.set()
        running = [job for job in self._jobs.values() if job.started]
        died = Died(
            self.how,
            max(0, len(running) - 1),
            alone=self._started == 1,
            by_node=self._by_node,
            blocked=self._blocked,
        )
        for job in list(self._jobs.values()):
            self._over(job, died if job.started else Unstarted())
        for job in self._left.values():
            job.returned.set_result(None)
        self._left.clear()
        return died

    @property
    def exited(self) -> bool:
        return self._exited.is_set()

    @property
    def pid(self) -> int | None:
        return None if self._transport is None else self._transport.get_pid()

    @property
    def how(self) -> str:
        """How it died."""
        if self._closed_why is not None:
            return self._closed_why
        code = self._code
        if code is None:
            return "it is gone"
        if code >= 0:
            return f"exit code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
        return f"signal {-code} ({name})"

    # What asyncio tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)
        stdin = self._transport.get_pipe_transport(0)
        self._stdin = cast("asyncio.WriteTransport", stdin)
        if self._closing:  # meanwhile
            self._kill(self._transport)
        settings = self._settings
        self._send(
            Hello(
                app=settings.node.app or "",
                threads=max(settings.targets.threads, group_size(0)),
                path=list(sys.path),
                parent=os.getpid(),
                silence_seconds=settings.node.lease_seconds,
                output=settings.output,
            )
        )

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != _OUT or self._garbled:
            return
        try:
            for message in self._frames.feed(data):
                self._heard(message)
        except BadFrame as error:
            self._garbled = True
            self.close(f"it wrote what is no frame: {error}")

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        del exc
        if fd == _OUT:
            self._drained.set()

    def process_exited(self) -> None:
        assert self._transport is not None
        self._code = self._transport.get_returncode()
        self._exited.set()
        self.changed.set()

    # What the child tells

    def _heard(self, message: ToNode) -> None:
        self.unanswered = 0
        match message:
            case Ready():
                self.ready = True
                self.idle_since = self._clock.monotonic()
                self.decided.set()
                self.changed.set()
            case Unfit(reason=reason):
                self._unfit = reason
            case Orphaned():
                self._by_node = True
                self._closed_why = "its node did not answer"
            case Pong():
                pass
            case (
                Started()
                | Uncalled()
                | Completing()
                | Progressed()
                | Ended()
                | Cancelled()
                | Left()
                | Returned()
            ):
                self._heard_of_job(message)

    def _heard_of_job(
        self,
        message: Started | Uncalled | Completing | Progressed | Ended | Cancelled | Left | Returned,
    ) -> None:
        if isinstance(message, Returned):
            left = self._left.pop(message.number, None)
            if left is not None:
                left.returned.set_result(None)
            return
        job = self._jobs.get(message.number)
        if job is None:
            return
        match message:
            case Started():
                job.started = True
                self._started += 1
            case Uncalled():
                if job.started:  # it was about to be, and was no company for others
                    self._started -= 1
                self._over(job, Unstarted())
            case Completing(completed=completed):
                job.run.completed = completed
            case Progressed(progress=progress):
                with contextlib.suppress(ValueError):  # no child is trusted to have checked it
                    job.run.progress(*progress)
            case Left():
                self._left[job.number] = job
                self._over(job, message)
            case Ended():
                self._over(job, message)
            case Cancelled():
                self._over(job, message if job.started else Unstarted())

    def _over(self, job: Job, end: End) -> None:
        self._jobs.pop(job.number, None)
        if not self._jobs:
            self.idle_since = self._clock.monotonic()
        job.end(end)

    def _send(self, message: ToChild) -> None:
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write(framed(message))

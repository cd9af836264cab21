"""Keeps the processes of `gnomon up` running, and leaves none of them behind.

Every child has its own process group, so that Ctrl-C in the terminal reaches only the supervisor,
and is killed by the kernel when the supervisor dies, however it dies (Linux).
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import FrameType, TracebackType
from typing import Self

from gnomon.clock import SystemClock
from gnomon.node.run.parent import die_with_parent

ONE_INTERRUPT_SECONDS = 2.0
TEND_SECONDS = 10.0
READY_POLL_SECONDS = 0.05
INTERRUPT_POLL_SECONDS = 0.1
CHANGED_SECONDS = 0.5


@dataclass(frozen=True)
class Child:
    """A process to keep running."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] | None = None  # None: the supervisor's own
    ready: Callable[[], bool] | None = None  # asked until it says yes; None: ready when started


@dataclass(frozen=True)
class Policy:
    """Timeouts and restart limits. Durations are in seconds."""

    stop_seconds: float = 30.0  # for each child, after SIGTERM
    first_delay: float = 0.2  # before a restart; doubles with each failure
    longest_delay: float = 15.0
    failures: int = 5  # this many failures ...
    failures_within: float = 30.0  # ... in this time, and the child is not restarted
    together: bool = False  # all stop at the same time, and not one after the other


class Interrupts:
    """Requests to stop, recorded from the moment this is entered instead of raised anywhere.

    Interrupts within `one_within` seconds are one: a Ctrl-C often arrives twice, from the terminal
    and from a parent such as make. A later one means it.
    """

    def __init__(self, *, one_within: float = ONE_INTERRUPT_SECONDS) -> None:
        self._one_within = one_within
        self.requested = False
        self.forced = False
        self._clock = SystemClock()
        self._first = 0.0
        self._restore = contextlib.ExitStack()
        self._wake = -1

    def __enter__(self) -> Self:
        self._wake, written = os.pipe()
        for end in (self._wake, written):
            os.set_blocking(end, False)
            self._restore.callback(os.close, end)
        before = signal.set_wakeup_fd(written, warn_on_full_buffer=False)
        self._restore.callback(signal.set_wakeup_fd, before)
        self._handle(signal.SIGINT, self._record)
        self._handle(signal.SIGTERM, self._record)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
            self._handle(signal.SIGHUP, self._record)
        self._handle(signal.SIGCHLD, _only_wake)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore.close()

    async def arrived(self) -> None:
        """Return once a stop was requested."""
        while not self.requested:
            await self._clock.sleep(INTERRUPT_POLL_SECONDS)

    def wait(self, seconds: float) -> None:
        """Return at the next signal, the end of a child included, or when the time is over."""
        if select.select([self._wake], [], [], max(seconds, 0.0))[0]:
            os.read(self._wake, 4096)

    def _handle(
        self, number: signal.Signals, handler: Callable[[int, FrameType | None], None]
    ) -> None:
        self._restore.callback(signal.signal, number, signal.signal(number, handler))

    def _record(self, _number: int, _frame: FrameType | None) -> None:
        now = self._clock.monotonic()
        if not self.requested:
            self.requested, self._first = True, now
        elif now - self._first > self._one_within:
            self.forced = True


def run(
    children: Sequence[Child],
    *,
    on_ready: Callable[[], None] | None = None,
    tend: Callable[[], None] | None = None,
    interrupts: Interrupts | None = None,
    policy: Policy | None = None,
    changed: Callable[[], bool] | None = None,
    tend_seconds: float = TEND_SECONDS,
) -> int:
    """Run the children until a signal asks to stop. Must be called from the main thread.

    `on_ready` is called once, when all are ready. `tend` is called whenever a process of ours
    ended, and every `tend_seconds`, for what else needs looking after. `interrupts` that were
    entered earlier cover what comes before and after as well. `changed` is asked twice a second:
    if so, each child is started anew, and the one before it ends in its own time. Returns 0 after
    a stop that was asked for, 1 if a child could not be kept running or had to be killed.
    """
    with contextlib.ExitStack() as stack:
        own = interrupts or stack.enter_context(Interrupts())
        supervisor = _Supervisor([_Runner(c, policy or Policy()) for c in children], own)
        try:
            supervisor.watch(on_ready, tend, changed, tend_seconds)
        except _GaveUpError as error:
            _report(f"{error}; stopping everything")
            return 1
        finally:
            clean = supervisor.stop()
        return 0 if clean else 1


class _GaveUpError(Exception):
    """A child cannot be kept running."""


class _Runner:
    """One child, through all its restarts."""

    def __init__(self, child: Child, policy: Policy) -> None:
        self.child = child
        self.policy = policy
        self.ready = False
        self.restart_at: float | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._delay = policy.first_delay
        self._failed_at: deque[float] = deque(maxlen=policy.failures)
        self._leaving: list[tuple[subprocess.Popen[bytes], float]] = []  # and until when

    def start(self, now: float) -> None:
        self._started_at, self.restart_at = now, None
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own programs
                list(self.child.argv),
                env=self.child.env,
                stdin=subprocess.DEVNULL,
                process_group=0,
                preexec_fn=partial(die_with_parent, os.getpid()),  # noqa: PLW1509 - no threads here
            )
        except OSError as error:
            raise _GaveUpError(f"{self.child.name} cannot be started: {error}") from error

    @property
    def alive(self) -> bool:
        return any(process.poll() is None for process in self._all())

    def _all(self) -> list[subprocess.Popen[bytes]]:
        """The child, and those before it that have not ended."""
        own = [] if self._process is None else [self._process]
        return own + [process for process, _ in self._leaving]

    def look(self, now: float) -> None:
        """Notice that the child ended, and start it again when it is time."""
        self.see_off(now)
        if self._process is not None and self._process.poll() is not None:
            self._failed(self._process.returncode, now)
        elif self.restart_at is not None and now >= self.restart_at:
            self.start(now)
        elif self._process is not None and not self.ready:
            self.ready = self.child.ready is None or self.child.ready()

    def _failed(self, code: int, now: float) -> None:
        self.kill()
        how = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
        if now - self._started_at > self.policy.failures_within:
            self._delay = self.policy.first_delay
        self._failed_at.append(now)
        often = len(self._failed_at) == self.policy.failures
        if often and now - self._failed_at[0] < self.policy.failures_within:
            raise _GaveUpError(f"{self.child.name} {how}, {self.policy.failures} times in a row")
        _report(f"{self.child.name} {how}; starting it again in {self._delay:g} s")
        self.restart_at = now + self._delay
        self._delay = min(self._delay * 2, self.policy.longest_delay)

    def replace(self, now: float) -> None:
        """Start the child anew. The one before ends in its own time, and is waited for."""
        before = self._process
        self.ask_to_stop()
        if before is not None:
            self._leaving.append((before, now + self.policy.stop_seconds))
        self._failed_at.clear()
        self._delay = self.policy.first_delay
        self.start(now)

    def ask_to_stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the child and whatever it left in its group."""
        process, self._process = self._process, None
        if process is not None:
            _kill(process)

    def kill_all(self) -> None:
        """The same for those before it, too."""
        self.kill()
        for process, _ in self._leaving:
            _kill(process)
        self._leaving.clear()

    def see_off(self, now: float) -> None:
        """Forget those that were replaced and have ended, and end those that take too long."""
        for process, deadline in list(self._leaving):
            if process.poll() is not None or now >= deadline:
                _kill(process)
                self._leaving.remove((process, deadline))


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and whatever it left in its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class _Supervisor:
    def __init__(self, runners: Sequence[_Runner], interrupts: Interrupts) -> None:
        self._runners = runners
        self._interrupts = interrupts
        self._clock = SystemClock()

    def watch(
        self,
        on_ready: Callable[[], None] | None,
        tend: Callable[[], None] | None,
        changed: Callable[[], bool] | None,
        tend_seconds: float,
    ) -> None:
        for runner in self._runners:
            if not self._interrupts.requested:
                runner.start(self._clock.monotonic())
        while not self._interrupts.requested:
            if tend is not None:
                tend()
            for runner in self._runners:
                runner.look(self._clock.monotonic())
            if changed is not None and changed():
                _report("the source has changed: starting anew")
                for runner in self._runners:
                    runner.replace(self._clock.monotonic())
            if on_ready is not None and all(runner.ready for runner in self._runners):
                on_ready()
                on_ready = None
            longest = tend_seconds if changed is None else min(tend_seconds, CHANGED_SECONDS)
            if on_ready is not None:
                longest = READY_POLL_SECONDS
            self._interrupts.wait(self._seconds_to_next(longest))

    def stop(self) -> bool:
        """Stop the children, the last one first. True if none had to be killed."""
        clean = True
        began = self._clock.monotonic()
        together = [runner for runner in reversed(self._runners) if runner.policy.together]
        for runner in together:
            runner.ask_to_stop()
        for runner in reversed(self._runners):
            if runner not in together:
                runner.ask_to_stop()
                began = self._clock.monotonic()
            clean = self._see_stopped(runner, began + runner.policy.stop_seconds) and clean
        return clean

    def _see_stopped(self, runner: _Runner, deadline: float) -> bool:
        while runner.alive and not self._interrupts.forced:
            left = deadline - self._clock.monotonic()
            if left <= 0:
                break
            self._interrupts.wait(left)
        clean = not runner.alive
        if not clean:
            _report(f"{runner.child.name} was killed before it had stopped")
        runner.kill_all()
        return clean

    def _seconds_to_next(self, longest: float) -> float:
        now = self._clock.monotonic()
        restarts = [r.restart_at - now for r in self._runners if r.restart_at is not None]
        return min([longest, *restarts])


def _only_wake(number: int, frame: FrameType | None) -> None:
    """A handler that does nothing: a signal without one does not end a wait."""


def _report(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal may be gone, and that must not stop the stop
        print(f"gnomon: {text}", file=sys.stderr, flush=True)

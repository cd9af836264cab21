"""The live line of a worker on a terminal: its slots, how much it gets done, and its lag."""

import sys
import threading
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, TextIO

from gnomon.clock import SystemClock
from gnomon.model.task import TaskKey
from gnomon.observe.events import Event, Observer, QueueSeen, TasksSettled, TasksStarted

DRAW_SECONDS = 0.5
RATE_SECONDS = 5.0
_CLEAR = "\r\x1b[K"


class Pulse:
    """What a worker does, counted from its events. Pure."""

    def __init__(self, name: str, slots: int) -> None:
        self._name = name
        self._slots = slots
        self._running: set[TaskKey] = set()
        self._ended: deque[tuple[float, int]] = deque()  # when, and how many
        self._total = 0
        self._failed = 0
        self._lag = 0.0

    def note(self, event: Event, now: float) -> None:
        match event:
            case TasksStarted(tasks):
                self._running.update(task.key for task in tasks)
            case TasksSettled(tasks):
                ended = list(tasks)
                self._running.difference_update(task.key for task in ended)
                called = [task.outcome for task in ended if task.outcome is not None]
                self._total += len(called)
                self._failed += sum(bool(outcome) for outcome in called)  # success is 0
                self._ended.append((now, len(called)))
            case QueueSeen(_, waits):
                self._lag = max(waits.values(), default=0.0)
            case _:
                pass

    def told(self, now: float) -> str:
        while self._ended and self._ended[0][0] <= now - RATE_SECONDS:
            self._ended.popleft()
        rate = sum(count for _, count in self._ended) / RATE_SECONDS
        failed = f", {self._failed} failed" if self._failed else ""
        return (
            f"{self._name}  {len(self._running)} of {self._slots} slots · {rate:.1f}/s · "
            f"lag {self._lag:.1f} s · {self._total} done{failed}"
        )


class LiveLine:
    """Draws the line below all that is printed. Used around everything that prints."""

    def __init__(self, name: str, slots: int, *, shown: bool) -> None:
        self._pulse = Pulse(name, slots)
        self._shown = shown
        self._clock = SystemClock()
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="gnomon-line", daemon=True)
        self._drawn = False
        self._at_start = True  # of a line of its own
        self._before: tuple[TextIO, TextIO] = (sys.stdout, sys.stderr)

    def listeners(self) -> Sequence[Observer]:
        return (self._note,) if self._shown else ()

    def __enter__(self) -> Self:
        if self._shown:
            self._before = (sys.stdout, sys.stderr)
            sys.stdout, sys.stderr = (_Above(self, each) for each in self._before)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            self._over.set()
            self._thread.join()
            sys.stdout, sys.stderr = self._before
            with self._lock:
                self._clear()

    def write_above(self, stream: TextIO, text: str) -> int:
        with self._lock:
            self._clear()
            written = stream.write(text)
            stream.flush()
            self._at_start = text.endswith("\n") if text else self._at_start
            return written

    def _note(self, event: Event) -> None:
        with self._lock:
            self._pulse.note(event, self._clock.monotonic())

    def _draw(self) -> None:
        while not self._over.wait(DRAW_SECONDS):
            with self._lock:
                if self._at_start:
                    self._put(f"{_CLEAR}{self._pulse.told(self._clock.monotonic())}")
                    self._drawn = True

    def _clear(self) -> None:
        if self._drawn:
            self._put(_CLEAR)
            self._drawn = False

    def _put(self, text: str) -> None:
        try:
            self._before[0].write(text)
            self._before[0].flush()
        except (OSError, ValueError):  # the terminal is gone
            self._over.set()


class _Above:
    """A stream whose text is printed above the line."""

    def __init__(self, line: LiveLine, stream: TextIO) -> None:
        self._line = line
        self._stream = stream

    def write(self, text: str) -> int:
        return self._line.write_above(self._stream, text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

"""The live line of a worker on a terminal: its slots, how much it gets done, and its lag.

One process draws its own. Of several, each writes its numbers on a board (a small shared file), and
their supervisor draws one line for all of them.
"""

import contextlib
import mmap
import os
import struct
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TextIO

from gnomon.clock import SystemClock
from gnomon.model.tasks.task import TaskKey
from gnomon.observe.events import Event, Observer, QueueSeen, TasksSettled, TasksStarted

DRAW_SECONDS = 0.5
RATE_SECONDS = 5.0
_CLEAR = "\r\x1b[K"


class Beat(NamedTuple):
    """What a worker does at the moment."""

    running: int = 0
    slots: int = 0
    total: int = 0
    failed: int = 0
    rate: float = 0.0
    lag: float = 0.0
    at_start: bool = True  # what it has printed ends with a line


class Pulse:
    """What a worker does, counted from its events. Pure."""

    def __init__(self, slots: int) -> None:
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

    def beat(self, now: float) -> Beat:
        while self._ended and self._ended[0][0] <= now - RATE_SECONDS:
            self._ended.popleft()
        rate = sum(count for _, count in self._ended) / RATE_SECONDS
        return Beat(len(self._running), self._slots, self._total, self._failed, rate, self._lag)


def told(name: str, beats: Sequence[Beat]) -> str:
    """The line of one worker, or of several together."""
    failures = sum(beat.failed for beat in beats)
    failed = f", {failures} failed" if failures else ""
    lag = max((beat.lag for beat in beats), default=0.0)
    return (
        f"{name}  {sum(beat.running for beat in beats)} of {sum(beat.slots for beat in beats)} "
        f"slots · {sum(beat.rate for beat in beats):.1f}/s · lag {lag:.1f} s · "
        f"{sum(beat.total for beat in beats)} done{failed}"
    )


_RECORD = struct.Struct("<qqqqqdd?7x")  # the process id, and a Beat


class BoardPlace(NamedTuple):
    """Where a process writes its beat on a board."""

    path: Path
    number: int

    def __str__(self) -> str:
        return f"{self.number}@{self.path}"

    @classmethod
    def read(cls, text: str) -> Self:
        number, _, path = text.partition("@")
        return cls(Path(path), int(number))


class Board:
    """The beats of several processes, each in a place of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)

    @classmethod
    @contextlib.contextmanager
    def made(cls, places: int) -> Iterator[Self]:
        """A new one, for as long as this lasts."""
        with tempfile.NamedTemporaryFile(prefix="gnomon-line-") as file:
            file.truncate(places * _RECORD.size)
            yield cls(Path(file.name))

    def place(self, number: int) -> BoardPlace:
        return BoardPlace(self._path, number)

    def take(self, number: int) -> None:
        """From now on this process writes there, and the one before it no longer does."""
        self._write(number, Beat())

    def write(self, number: int, beat: Beat) -> None:
        if self._read(number)[0] == os.getpid():
            self._write(number, beat)

    def beats(self) -> list[Beat]:
        places = len(self._memory) // _RECORD.size
        return [Beat(*self._read(number)[1:]) for number in range(places)]

    def _write(self, number: int, beat: Beat) -> None:
        _RECORD.pack_into(self._memory, number * _RECORD.size, os.getpid(), *beat)

    def _read(self, number: int) -> tuple[Any, ...]:
        return _RECORD.unpack_from(self._memory, number * _RECORD.size)


class LiveLine:
    """Draws the line of this process below all that is printed, or writes its beat on a board.
    Used around everything that prints."""

    def __init__(self, name: str, slots: int, place: BoardPlace | None = None) -> None:
        self._name = name
        self._pulse = Pulse(slots)
        self._place = place
        self._board = None if place is None else Board(place.path)
        self._clock = SystemClock()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="gnomon-line", daemon=True)
        self._terminal = Terminal()

    def listeners(self) -> Sequence[Observer]:
        return (self._note,)

    def __enter__(self) -> Self:
        if self._board is not None and self._place is not None:
            self._board.take(self._place.number)
            self._terminal.drawn = True  # by the supervisor, at any time
        self._terminal.__enter__()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self._terminal.__exit__(kind, error, trace)

    def _note(self, event: Event) -> None:
        with self._lock:
            self._pulse.note(event, self._clock.monotonic())

    def _go_on(self) -> None:
        while not self._over.wait(DRAW_SECONDS):
            with self._lock:
                beat = self._pulse.beat(self._clock.monotonic())
            if self._board is not None and self._place is not None:
                shown = beat._replace(at_start=self._terminal.at_start)
                self._board.write(self._place.number, shown)
            elif not self._terminal.draw(told(self._name, [beat])):
                return


class Terminal:
    """Standard output and error, with a line below what is printed."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._before: tuple[TextIO, TextIO] = (sys.stdout, sys.stderr)
        self.drawn = False
        self.at_start = True  # of a line of its own

    def __enter__(self) -> Self:
        self._before = (sys.stdout, sys.stderr)
        sys.stdout, sys.stderr = (_Above(self, each) for each in self._before)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.stdout, sys.stderr = self._before
        with self._lock:
            if self.drawn:
                self._put(_CLEAR)

    def draw(self, line: str) -> bool:
        """Draws the line anew. False where the terminal is gone."""
        with self._lock:
            if not self.at_start:
                return True
            self.drawn = True
            return self._put(f"{_CLEAR}{line}")

    def write_above(self, stream: TextIO, text: str) -> int:
        with self._lock:
            clear = _CLEAR if self.drawn and self.at_start and text else ""
            stream.write(clear + text)
            stream.flush()
            self.at_start = text.endswith("\n") if text else self.at_start
            return len(text)

    def _put(self, text: str) -> bool:
        try:
            self._before[0].write(text)
            self._before[0].flush()
        except (OSError, ValueError):
            return False
        return True


class _Above:
    """A stream whose text is printed above the line."""

    def __init__(self, terminal: Terminal, stream: TextIO) -> None:
        self._terminal = terminal
        self._stream = stream

    def write(self, text: str) -> int:
        return self._terminal.write_above(self._stream, text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class BoardLine(Terminal):
    """Draws the line of several processes from their board, whenever it is asked to."""

    def __init__(self, name: str, board: Board) -> None:
        super().__init__()
        self._name = name
        self._board = board

    def tend(self) -> None:
        beats = self._board.beats()
        if all(beat.at_start for beat in beats):
            self.draw(told(self._name, beats))

"""What a campaign leaves behind, as data: what was asked and answered, every call that arrived,
every effect, every fault, and what PostgreSQL holds in the end.

The checker sees nothing else, and nothing of Gnomon's own code: it is fed from these records
alone. All times are seconds since the epoch by the clock of the harness.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

Mode = Literal["at_least_once", "at_most_once", "exactly_once"]
# webhook: the observer answers. function: a Python handler that only tells that it ran. effect: a
# Python handler that writes a row and completes its run in one transaction.
Way = Literal["webhook", "function", "effect"]
Action = Literal["cancel", "interrupt", "pause", "resume", "redrive"]


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """A task that was handed in. `n` is the harness's own number, and travels in the payload."""

    n: int
    mode: Mode
    way: Way
    asked_at: float
    acked_at: float | None  # None: no answer that said so; it may exist all the same
    task_id: str | None  # as acknowledged
    due_at: float  # as asked for: never before this
    fails: int = 0  # tries that its receiver fails before it succeeds
    seconds: float = 0.0  # that a try takes
    max_retries: int = 3
    timeout_seconds: float = 30.0
    after: tuple[int, ...] = ()  # those that must have succeeded before: it is a node of a workflow
    late_commit: bool = False  # written by plain SQL; acked_at is when its transaction committed


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """A change that was asked for."""

    n: int
    action: Action
    asked_at: float
    answered_at: float | None
    accepted: bool | None  # None: nobody knows


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A try that began, as whoever was called saw it."""

    n: int
    run_id: str  # webhook-id, or what the function was told
    attempt: int
    fence: int
    began_at: float
    ended_at: float | None = None  # None: it was not seen to end
    succeeded: bool = False
    hung_up: bool = False  # its caller went away, or cancelled it, before it could answer
    node: str | None = None  # where the called one can tell

    @property
    def where(self) -> str:
        return self.node or "a node"


class Effect(msgspec.Struct, frozen=True):
    """Something that was done for good: at the sink of the observer, or a row in PostgreSQL."""

    n: int
    run_id: str
    fence: int
    at: float


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was broken, and when all that it touched was whole again."""

    # kill, crash_point, pause, postgres_fast, postgres_immediate, cut, delay, black_hole,
    # lost_answer, skew, ...
    kind: str
    victim: str
    at: float
    healed_at: float
    took_effect: bool
    detail: str = ""


class Route(msgspec.Struct, frozen=True):
    """From when on a remote worker was led to a gateway."""

    worker: str
    gateway: str  # an API process
    at: float


class Final(msgspec.Struct, frozen=True, kw_only=True):
    """A task as PostgreSQL holds it in the end."""

    n: int
    task_id: str
    # 0 waiting, 1 running, 2 paused, 3 blocked, 4 dead, 10 completed, 11 cancelled, 12 expired
    state: int
    fence: int
    attempt: int
    last_error: str | None = None


class Sighting(msgspec.Struct, frozen=True):
    """Something that must never be seen, and was, by the auditor of the tables while it ran."""

    at: float
    what: str


class History(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    began_at: float
    ended_at: float
    lease: float
    submitted: list[Submitted]
    changed: list[Changed] = []
    calls: list[Call] = []
    effects: list[Effect] = []
    faults: list[Fault] = []
    finals: list[Final] = []
    sightings: list[Sighting] = []
    routes: list[Route] = []
    gateways: list[str] = []  # all API processes, where remote workers find one by themselves


_T = TypeVar("_T", bound=msgspec.Struct)


def append(file: Path, records: Iterable[msgspec.Struct]) -> None:
    """Add records to a file of lines."""
    with file.open("ab") as lines:
        for record in records:
            lines.write(msgspec.json.encode(record) + b"\n")


def read(file: Path, kind: type[_T]) -> Iterator[_T]:
    """The records of a file of lines; a last line that was cut off is left out."""
    if not file.exists():
        return
    decoder = msgspec.json.Decoder(kind)
    for line in file.read_bytes().split(b"\n")[:-1]:
        yield decoder.decode(line)

"""Judges what an independent receiver saw of cron jobs that fire every second. Pure.

It knows nothing of Gnomon: what must have happened follows from when the jobs were created and
which faults were injected. A run is one run id; further calls with the same id are tries of it.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Call(NamedTuple):
    """A call that arrived, or, as `ended`, the moment at which it was over."""

    what: str  # began, ended
    at: float  # seconds since the epoch
    job: str
    fire: float
    run: str
    attempt: int


class Job(NamedTuple):
    """A job that fires every second, created between two moments."""

    name: str
    complete: bool  # whether each fire must have its run; else only those outside of the windows
    created_after: float
    created_before: float


class Window(NamedTuple):
    """A time in which fires may be skipped: from a kill, less a second, to its recovery."""

    begin: float
    end: float


class Judgement(NamedTuple):
    """What was seen, and what was wrong with it: the lists after `gaps` should be empty."""

    fires: int  # that had to be looked for
    runs: int
    calls: int
    repeated: int  # calls beyond the first one of a run
    gaps: list[tuple[str, float]]  # fires that were skipped, by those who may
    doubled: list[tuple[str, float]]
    missing: list[tuple[str, float]]
    outside: list[tuple[str, float]]  # gaps that no window excuses
    early: list[tuple[str, float]]
    unexpected: list[tuple[str, float]]  # before its job existed, or of no job

    @property
    def wrong(self) -> dict[str, list[tuple[str, float]]]:
        named = {
            "doubled": self.doubled,
            "missing": self.missing,
            "gaps outside of windows": self.outside,
            "early": self.early,
            "unexpected": self.unexpected,
        }
        return {name: found for name, found in named.items() if found}


def judge(
    calls: Iterable[Call], jobs: Sequence[Job], until: float, windows: Sequence[Window] = ()
) -> Judgement:
    """Judge every fire up to `until`; of later ones, only what arrived."""
    began = [call for call in calls if call.what == "began"]
    by_name = {job.name: job for job in jobs}
    runs: defaultdict[tuple[str, float], set[str]] = defaultdict(set)
    for call in began:
        runs[call.job, call.fire].add(call.run)
    absent = {
        job.name: [fire for fire in fires_of(job, until) if (job.name, fire) not in runs]
        for job in jobs
    }
    gaps = [(j.name, fire) for j in jobs if not j.complete for fire in absent[j.name]]
    tries = Counter(call.run for call in began)
    return Judgement(
        fires=sum(len(fires_of(job, until)) for job in jobs),
        runs=len(tries),
        calls=len(began),
        repeated=sum(tries.values()) - len(tries),
        gaps=gaps,
        doubled=sorted(fire for fire, ids in runs.items() if len(ids) > 1),
        missing=[(j.name, fire) for j in jobs if j.complete for fire in absent[j.name]],
        outside=[gap for gap in gaps if not any(w.begin <= gap[1] <= w.end for w in windows)],
        early=sorted({(c.job, c.fire) for c in began if c.at < c.fire}),
        unexpected=sorted({(c.job, c.fire) for c in began if _unexpected(c, by_name)}),
    )


def recovery(gaps: Iterable[tuple[str, float]], windows: Sequence[Window]) -> float:
    """How long after the end of its window the latest skipped fire was."""
    late = (
        min((fire - w.end for w in windows if w.begin <= fire), default=math.inf)
        for _, fire in gaps
    )
    return max((max(0.0, seconds) for seconds in late), default=0.0)


def fires_of(job: Job, until: float) -> list[float]:
    """The seconds that the job surely has to fire at."""
    seconds = range(math.floor(job.created_before) + 1, math.floor(until) + 1)
    return [float(second) for second in seconds]


def _unexpected(call: Call, jobs: dict[str, Job]) -> bool:
    job = jobs.get(call.job)
    return job is None or call.fire <= job.created_after or call.fire != int(call.fire)


class Span(NamedTuple):
    """A run from the beginning of its first try to the end of its last one."""

    job: str
    run: str
    begin: float
    end: float


def spans(calls: Iterable[Call]) -> list[Span]:
    """The runs in the order of their beginnings. One that has not ended lasts for ever."""
    began: dict[tuple[str, str], float] = {}
    ended: dict[tuple[str, str], float] = {}
    open_calls: Counter[tuple[str, str]] = Counter()
    for call in calls:
        run = (call.job, call.run)
        if call.what == "began":
            began[run] = min(call.at, began.get(run, call.at))
            open_calls[run] += 1
        else:
            ended[run] = max(call.at, ended.get(run, call.at))
            open_calls[run] -= 1
    found = [
        Span(*run, begin, math.inf if open_calls[run] else ended[run])
        for run, begin in began.items()
    ]
    return sorted(found, key=lambda span: span.begin)


def overlapping(of: Iterable[Span]) -> list[tuple[Span, Span]]:
    """Pairs of runs of one job of which one began before the other had ended."""
    latest: dict[str, Span] = {}
    pairs = []
    for span in sorted(of, key=lambda span: span.begin):
        before = latest.get(span.job)
        if before is not None and span.begin < before.end:
            pairs.append((before, span))
        if before is None or span.end > before.end:
            latest[span.job] = span
    return pairs

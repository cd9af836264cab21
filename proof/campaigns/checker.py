"""Says what went wrong in a campaign, from its records alone. Pure, and knows nothing of Gnomon.

Each rule looks at one task with all that is known of it, and names what it holds against it. What
must have happened follows from what was acknowledged; what may have happened besides, from what
was asked without an answer and from the faults that took effect.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec
from proof.campaigns.expectations import (
    Case,
    Faults,
    Limits,
    Surplus,
    cases,
    newer_before,
    spends,
    surplus,
)
from proof.campaigns.history import Call, Changed, Effect, Final, History, Submitted
from proof.campaigns.session_losses import Ways

SHOWN = 20  # of each kind
_SEEN_LATE = 0.05  # seconds: a receiver writes down that it has answered after it did

WAITING, RUNNING, PAUSED, BLOCKED, DEAD, COMPLETED, CANCELLED = 0, 1, 2, 3, 4, 10, 11


class Kind(StrEnum):
    """What can be held against a task."""

    LOST = "lost"
    LATE = "late"
    TOO_LATE = "too_late"
    EARLY = "early"
    START_EXPLAINED = "duplicate_starts_explained"
    START_UNEXPLAINED = "duplicate_starts_unexplained"
    DUPLICATE_EFFECT = "duplicate_effects"
    MISSING_EFFECT = "missing_effects"
    STALE_FENCE = "stale_fence_accepted"
    UNEXPECTED = "unexpected"
    OVERLAP_EXPLAINED = "overlaps_explained"
    OVERLAP_UNEXPLAINED = "overlaps_unexplained"
    STUCK = "stuck"
    DEAD_EXPECTED = "dead_letters_expected"
    DEAD_BY_LOSSES = "dead_letters_by_losses"


# What may happen: it is counted, and to be looked at, but not wrong.
_INNOCENT = (
    Kind.LATE,
    Kind.START_EXPLAINED,
    Kind.OVERLAP_EXPLAINED,
    Kind.DEAD_EXPECTED,
    Kind.DEAD_BY_LOSSES,  # where it is wrong, it is UNEXPECTED too
)


class Offence(NamedTuple):
    """Something that is held against a task."""

    kind: Kind
    n: int
    why: str
    cause: str = ""  # of a start that was repeated: the kinds of the faults


class Finding(msgspec.Struct):
    """How often something was found, and the first ones."""

    count: int = 0
    first: list[tuple[int, str]] = []


class Delay(NamedTuple):
    """When a task could have started, and when it did."""

    n: int
    due_at: float
    started_at: float


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen, and what is held against it."""

    submitted: int
    acknowledged: int
    calls: int
    effects: int
    findings: dict[Kind, Finding]  # every kind is there
    delays: list[Delay]  # of tasks that nobody held back
    causes: dict[str, int]  # of starts that were repeated, and how many each explains

    @property
    def wrong(self) -> dict[str, Finding]:
        """What must not be, and was. Empty is good."""
        found = self.findings.items()
        return {str(k): finding for k, finding in found if finding.count and k not in _INNOCENT}

    @property
    def counts(self) -> dict[str, int]:
        seen = {
            "submitted": self.submitted,
            "acknowledged": self.acknowledged,
            "calls": self.calls,
            "effects": self.effects,
        }
        return seen | {str(kind): finding.count for kind, finding in self.findings.items()}

    def __getitem__(self, kind: Kind) -> Finding:
        return self.findings[kind]


def judge(history: History, limits: Limits | None = None) -> Judgement:
    """Ask when all should be over."""
    limits = limits or Limits()
    ways = Ways(history.routes, history.gateways)
    faults = Faults(history.faults, history.lease, limits, ways)
    findings = {kind: Finding() for kind in Kind}
    delays, causes = [], Counter[str]()
    known = {case.n: case for case in cases(history)}
    for case in known.values():
        for offence in _before_its_turn(case, known):
            _enter(findings, offence)
        for offence in _offences(case, faults, limits, history.lease):
            _enter(findings, offence)
            causes.update([offence.cause] if offence.cause else [])
        if (delay := _delay(case)) is not None:
            delays.append(delay)
    for sighting in history.sightings:
        _enter(findings, Offence(Kind.UNEXPECTED, -1, f"at {sighting.at:.3f}: {sighting.what}"))
    return Judgement(
        submitted=len({s.n for s in history.submitted}),
        acknowledged=len({s.n for s in history.submitted if s.acked_at is not None}),
        calls=len(history.calls),
        effects=len(history.effects),
        findings=findings,
        delays=delays,
        causes=dict(causes.most_common()),
    )


def _enter(findings: dict[Kind, Finding], offence: Offence) -> None:
    finding = findings[offence.kind]
    finding.count += 1
    if len(finding.first) < SHOWN:
        finding.first.append((offence.n, offence.why))


def _offences(case: Case, faults: Faults, limits: Limits, lease: float) -> Iterator[Offence]:
    asked = case.submitted
    if asked is None:
        yield Offence(Kind.UNEXPECTED, case.n, f"was never submitted: {_seen(case)}")
        return
    yield from _identity(case, asked)
    yield from _early(case, asked)
    yield from _duplicate_starts(case, asked, faults)
    yield from _overlaps(case, asked, faults)
    yield from _started_in_spite(case, lease + limits.aftermath)
    yield from _effects(case, asked)
    yield from _late(case, faults, limits)
    if (final := case.final) is not None:
        yield from _fence(case, final)
        yield from _ending(case, asked, final, faults)


def _seen(case: Case) -> str:
    return f"{len(case.calls)} calls, {len(case.effects)} effects, {len(case.finals)} rows"


def _identity(case: Case, asked: Submitted) -> Iterator[Offence]:
    """One task for each number, and each call under its id."""
    ids = case.ids
    if asked.acked_at is not None and asked.task_id not in ids:
        kept = f"; stored as {', '.join(sorted(ids))}" if ids else ""
        yield Offence(Kind.LOST, case.n, f"acknowledged as {asked.task_id}, and not there{kept}")
    if len(ids) > 1:
        yield Offence(Kind.UNEXPECTED, case.n, f"stored as {len(ids)} tasks")
    if len(case.finals) > len(ids):
        yield Offence(Kind.UNEXPECTED, case.n, "live and finished at once")
    known = ids | {asked.task_id}
    seen: list[Call | Effect] = [*case.calls, *case.effects]
    for each in seen:
        if each.run_id not in known:
            what = type(each).__name__.lower()
            yield Offence(Kind.UNEXPECTED, case.n, f"a {what} of {each.run_id}, which is not there")


def _early(case: Case, asked: Submitted) -> Iterator[Offence]:
    for call in case.calls:
        if call.began_at < asked.due_at:
            ahead = asked.due_at - call.began_at
            yield Offence(Kind.EARLY, case.n, f"fence {call.fence} began {ahead:.6f} s early")


def _before_its_turn(case: Case, known: Mapping[int, Case]) -> Iterator[Offence]:
    """A node of a workflow starts after those that it waits for have succeeded."""
    if case.submitted is None or not case.submitted.after:
        return
    for call in case.calls:
        for n in case.submitted.after:
            if not any(at <= call.began_at + _SEEN_LATE for at in _successes(known.get(n))):
                why = f"fence {call.fence} began at {call.began_at:.3f} before {n} had succeeded"
                yield Offence(Kind.EARLY, case.n, why)


def _successes(case: Case | None) -> list[float]:
    """When it succeeded, as those who were called saw it."""
    if case is None:
        return []
    calls = [call.ended_at or call.began_at for call in case.calls if call.succeeded]
    return calls + [effect.at for effect in case.effects]


def _duplicate_starts(case: Case, asked: Submitted, faults: Faults) -> Iterator[Offence]:
    blamed: set[int] = set()  # failures that explain a call already
    extras = {id(extra.call): extra for extra in surplus(case, asked)}
    for call in case.calls:
        extra, newer = extras.get(id(call)), newer_before(case, call)
        if newer:
            # No fault is an excuse: whoever wakes up from one has to look at its lease first.
            near = faults.of_node(call.node, newer[0].began_at, call.began_at)
            why = f"{_began(call)} after {_fences(newer)}, so its claim had been taken over"
            yield Offence(Kind.START_UNEXPLAINED, case.n, f"{why}; {call.where}: {near}")
        elif extra is not None:
            yield _repeated(extra, asked, faults, blamed)


def _repeated(extra: Surplus, asked: Submitted, faults: Faults, blamed: set[int]) -> Offence:
    n, why = asked.n, f"{_began(extra.call)} after {_fences(extra.instead_of)}"
    if extra.same_fence:
        return Offence(Kind.START_UNEXPLAINED, n, f"{why}: one claim, two calls")
    if asked.mode == "at_most_once":
        return Offence(Kind.START_UNEXPLAINED, n, f"{why}: at most one was promised")
    if cause := faults.cause(extra, blamed):
        return Offence(Kind.START_EXPLAINED, n, f"{why}: {cause.words}", cause.kinds)
    return Offence(Kind.START_UNEXPLAINED, n, f"{why}: no fault explains it")


def _began(call: Call) -> str:
    return f"fence {call.fence} began at {call.began_at:.3f} on {call.where}"


def _fences(calls: Sequence[Call]) -> str:
    return ", ".join(f"{c.fence} at {c.began_at:.3f} on {c.where}" for c in calls)


def _overlaps(case: Case, asked: Submitted, faults: Faults) -> Iterator[Offence]:
    last: Call | None = None
    for call in case.calls:
        if last is not None and call.began_at < faults.end_of(last, asked):
            why = f"{_began(call)} while {last.fence} was running on {last.where}"
            # What was lost is started again under a higher fence, and never under a lower one.
            explained = last.fence <= call.fence and faults.explain(last, call.began_at)
            kind = Kind.OVERLAP_EXPLAINED if explained else Kind.OVERLAP_UNEXPLAINED
            yield Offence(kind, case.n, why)
        if last is None or faults.end_of(call, asked) > faults.end_of(last, asked):
            last = call


def _started_in_spite(case: Case, patience: float) -> Iterator[Offence]:
    """Calls that began although it had been promised that none would."""
    for change in case.accepted("cancel", "interrupt", "pause"):
        answered_at = change.answered_at or 0.0
        until = _until(case, change)
        after = [c for c in case.calls if answered_at < c.began_at < until]
        if change.action == "interrupt" and after:
            # The try that it was to interrupt may only have been about to begin.
            within = after[0].began_at <= answered_at + patience
            after = after[1:] if within else after
        for call in after:
            late = call.began_at - answered_at
            why = f"fence {call.fence} began {late:.3f} s after {change.action} was accepted"
            yield Offence(Kind.UNEXPECTED, case.n, why)


def _until(case: Case, change: Changed) -> float:
    """Until when a change holds: a pause, until somebody asked for it to end."""
    if change.action != "pause":
        return float("inf")
    ends = (c.asked_at for c in case.possible("resume") if c.asked_at >= change.asked_at)
    return min(ends, default=float("inf"))


def _effects(case: Case, asked: Submitted) -> Iterator[Offence]:
    if len(case.effects) > 1:
        fences = ", ".join(f"{e.run_id}/{e.fence}" for e in case.effects)
        yield Offence(Kind.DUPLICATE_EFFECT, case.n, f"{len(case.effects)} effects: {fences}")
    final = case.final
    done = final is not None and final.state == COMPLETED
    if done and asked.mode == "exactly_once" and asked.way != "function" and not case.effects:
        yield Offence(Kind.MISSING_EFFECT, case.n, "completed without its effect")
    if final is not None and not done and asked.way == "effect" and case.effects:
        why = f"its effect was kept, but it ended in state {final.state}"
        yield Offence(Kind.UNEXPECTED, case.n, why)


def _fence(case: Case, final: Final) -> Iterator[Offence]:
    highest = max((call.fence for call in case.calls), default=0)
    if highest > final.fence:
        why = f"a call had fence {highest}, and it ended in state {final.state} with {final.fence}"
        yield Offence(Kind.STALE_FENCE, case.n, why)


def _ending(case: Case, asked: Submitted, final: Final, faults: Faults) -> Iterator[Offence]:
    match final.state:
        case 10:
            yield from _completed(case, asked, final)
        case 11:
            if not case.possible("cancel", "interrupt"):
                yield Offence(Kind.UNEXPECTED, case.n, "cancelled, which nobody had asked for")
        case 4:
            yield from _dead(case, asked, final, faults)
        case 2 if case.may_be_paused:
            pass
        case 0 | 1 | 2 | 3:
            why = f"state {final.state}, attempt {final.attempt}, fence {final.fence}"
            yield Offence(Kind.STUCK, case.n, why)
        case _:
            yield Offence(Kind.UNEXPECTED, case.n, f"ended in state {final.state}")
    ended = final.state in (DEAD, COMPLETED)
    for change in case.accepted("cancel", "interrupt"):
        wins = change.action == "interrupt" and final.state == COMPLETED
        if ended and not wins:
            why = f"{change.action} was accepted, but it ended in state {final.state}"
            yield Offence(Kind.UNEXPECTED, case.n, why)


def _completed(case: Case, asked: Submitted, final: Final) -> Iterator[Offence]:
    """Success must have been seen by whoever was called, in the very try that was settled."""
    if asked.way == "effect":
        # The row of the effect and the completion are one commit; that the function returned may
        # not have been seen.
        succeeded = {effect.fence for effect in case.effects}
    else:
        succeeded = {call.fence for call in case.calls if call.succeeded}
    if not any(call.fence == final.fence for call in case.calls):
        yield Offence(Kind.LOST, case.n, f"completed with fence {final.fence} without such a call")
    elif not succeeded and asked.way != "effect":
        yield Offence(Kind.LOST, case.n, "completed, but no call was seen to succeed")
    elif succeeded and final.fence not in succeeded:
        seen = ", ".join(map(str, sorted(succeeded)))
        why = f"completed with fence {final.fence}, but the success was that of {seen}"
        yield Offence(Kind.STALE_FENCE, case.n, why)


def _dead(case: Case, asked: Submitted, final: Final, faults: Faults) -> Iterator[Offence]:
    """A dead letter must have used up its tries; at most once, one try may also have been lost."""
    at_most_once = asked.mode == "at_most_once"
    spent = sum(spends(call, asked) for call in case.calls)
    if spent > (0 if at_most_once else asked.max_retries):
        yield Offence(Kind.DEAD_EXPECTED, case.n, f"after {spent} tries that failed")
        if not at_most_once and asked.fails <= asked.max_retries:
            why = f"a dead letter after {spent} failures of which {asked.fails} were asked for"
            yield Offence(Kind.UNEXPECTED, case.n, why)
        return
    why = f"a dead letter after {len(case.calls)} calls, {spent} of them failed: {final.last_error}"
    yield Offence(Kind.DEAD_BY_LOSSES, case.n, why)
    doomed = at_most_once or asked.fails > asked.max_retries
    if not doomed:
        yield Offence(Kind.UNEXPECTED, case.n, why)
    elif not _lost(case, asked, faults):
        yield Offence(Kind.UNEXPECTED, case.n, f"{why}; no fault explains it")


def _lost(case: Case, asked: Submitted, faults: Faults) -> bool:
    """Whether a fault can be why the end of a try was not heard of."""
    if case.calls:
        patience = asked.timeout_seconds
        return any(
            faults.explain(call, call.began_at + patience) is not None for call in case.calls
        )
    return faults.struck(asked.due_at)


def _late(case: Case, faults: Faults, limits: Limits) -> Iterator[Offence]:
    delay = _delay(case)
    if delay is None or case.submitted is None or case.submitted.acked_at is None:
        return
    late = delay.started_at - delay.due_at
    if late > limits.late and not faults.delayed(delay.due_at, delay.due_at + limits.late):
        kind = Kind.TOO_LATE if late > limits.too_late else Kind.LATE
        yield Offence(kind, case.n, f"began {late:.3f} s late")


def _delay(case: Case) -> Delay | None:
    """None where it never started, or somebody held it back."""
    asked = case.submitted
    held_back = case.possible("pause", "cancel", "interrupt")
    if asked is None or held_back or not case.calls or asked.after:
        return None
    started_at = case.calls[0].began_at
    ready_at = max(asked.due_at, asked.acked_at or asked.asked_at)
    return Delay(case.n, min(ready_at, started_at), started_at)

"""What may be expected of one task, from what was asked and answered and from the faults alone.

Pure, and knows nothing of Gnomon.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

import msgspec
from proof.campaigns.faults import PIPE_RATES
from proof.campaigns.history import (
    Action,
    Call,
    Changed,
    Effect,
    Fault,
    Final,
    History,
    Submitted,
)
from proof.campaigns.session_losses import NO_WAYS, REMOTE, Cause, SessionLosses, Ways

# Faults after which a process is gone, and what it ran with it.
_DEADLY = ("kill", "crash_point", "skew")
# Of the faults that can be the cause, the one that does most harm is taken for it.
_HARM = (
    "kill", "crash_point", "skew", "pause", "black_hole", "failover", "postgres_immediate",
    "postgres_fast", "delay", "lost_answer", "cut",
)  # fmt: skip
_CLOSE_TO_TIMEOUT = 0.1  # seconds: a try is ended by a look every now and then


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much time things may take, in seconds."""

    aftermath: float = 3.0  # beyond the lease: how long a healed fault may still show itself
    late: float = 2.0  # a start later than this is reported
    too_late: float = 60.0  # and one later than this is wrong
    recovery: float = 15.0  # beyond the lease: how long a fault may still delay starts


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of one number."""

    n: int
    submitted: Submitted | None = None
    changes: list[Changed] = []
    calls: list[Call] = []  # in the order of their beginnings
    effects: list[Effect] = []
    finals: list[Final] = []

    @property
    def ids(self) -> set[str]:
        return {final.task_id for final in self.finals}

    @property
    def final(self) -> Final | None:
        """The row of the task that was acknowledged, else of any that was stored."""
        acknowledged = None if self.submitted is None else self.submitted.task_id
        by_preference = sorted(self.finals, key=lambda final: final.task_id != acknowledged)
        return by_preference[0] if by_preference else None

    @property
    def may_be_paused(self) -> bool:
        """In the end."""
        resumed = [c.asked_at for c in self.accepted("resume")]
        return any(all(at < c.asked_at for at in resumed) for c in self.possible("pause"))

    def accepted(self, *actions: Action) -> list[Changed]:
        """Changes that were answered with yes."""
        return [c for c in self.changes if c.action in actions and c.accepted]

    def possible(self, *actions: Action) -> list[Changed]:
        """Changes that were answered with yes, or not at all."""
        return [c for c in self.changes if c.action in actions and c.accepted is not False]


def cases(history: History) -> Iterator[Case]:
    """Everything that was recorded, by number."""
    submitted: dict[int, Submitted] = {}
    for each in history.submitted:
        if each.acked_at is not None or each.n not in submitted:
            submitted[each.n] = each
    changes: defaultdict[int, list[Changed]] = defaultdict(list)
    calls: defaultdict[int, list[Call]] = defaultdict(list)
    effects: defaultdict[int, list[Effect]] = defaultdict(list)
    finals: defaultdict[int, list[Final]] = defaultdict(list)
    for change in history.changed:
        changes[change.n].append(change)
    for call in history.calls:
        calls[call.n].append(call)
    for effect in history.effects:
        effects[effect.n].append(effect)
    for final in history.finals:
        finals[final.n].append(final)
    for n in sorted(submitted.keys() | calls.keys() | effects.keys() | finals.keys()):
        yield Case(
            n=n,
            submitted=submitted.get(n),
            changes=sorted(changes[n], key=lambda change: change.asked_at),
            calls=sorted(calls[n], key=lambda call: call.began_at),
            effects=effects[n],
            finals=finals[n],
        )


class Surplus(msgspec.Struct, frozen=True):
    """A call that would not have been made on a calm day."""

    call: Call
    instead_of: Sequence[Call]  # the calls before it, of which the outcome of one was lost
    # Failures that led to calls which need no other reason. Where there are more of them than
    # retries, one may have been lost all the same, before the call that followed it.
    failed: Sequence[tuple[Call, Call]]
    same_fence: bool  # as an earlier one: a claim leads to one call, whatever happens


def surplus(case: Case, asked: Submitted) -> Iterator[Surplus]:
    """Calm gives one call, and another one for each that failed while retries are left."""
    count, since = 0, 0
    for index, call in enumerate(case.calls):
        earlier = case.calls[:index]
        same_fence = any(before.fence == call.fence for before in earlier)
        if same_fence or index - count >= _allowed(case, asked, call):
            spent = {id(before) for before in earlier if _has_spent(before, asked, call)}
            beyond = len(spent) > asked.max_retries
            # A failure has its retry already; only where there are more of them than retries, one
            # may have been lost before that was spent.
            lost = [each for each in earlier[since:] if beyond or id(each) not in spent]
            pairs = islice(pairwise(earlier), since)
            failed = [(each, then) for each, then in pairs if beyond and id(each) in spent]
            yield Surplus(call, lost, failed, same_fence)
            count, since = count + 1, index


def newer_before(case: Case, call: Call) -> list[Call]:
    """Calls under a higher fence that began before this one. A fence grows when a claim is taken
    over, which is when the lease of its node has ended by PostgreSQL's clock: so where there are
    any, this one began without a lease."""
    return [c for c in case.calls if c.fence > call.fence and c.began_at < call.began_at]


def _has_spent(before: Call, asked: Submitted, call: Call) -> bool:
    ended = before.ended_at is not None and before.ended_at <= call.began_at
    return ended and spends(before, asked)


def _allowed(case: Case, asked: Submitted, call: Call) -> int:
    """How many calls there may be on a calm day, up to the beginning of this one."""
    again = sum(c.asked_at <= call.began_at for c in case.possible("redrive"))
    if asked.mode == "at_most_once":
        return 1 + again
    spent = sum(_has_spent(before, asked, call) for before in case.calls)
    return 1 + again + min(spent, asked.max_retries * (1 + again))


def spends(call: Call, asked: Submitted) -> bool:
    """Whether a try ended in a way that takes a retry from the budget: it was answered as failed,
    or its time was up."""
    if call.ended_at is None:
        return False
    timed_out = call.ended_at - call.began_at >= asked.timeout_seconds - _CLOSE_TO_TIMEOUT
    return timed_out or not (call.succeeded or call.hung_up)


class Faults:
    """What the faults of a campaign can explain, and what not."""

    def __init__(
        self, faults: Sequence[Fault], lease: float, limits: Limits, ways: Ways = NO_WAYS
    ) -> None:
        self._faults = sorted((f for f in faults if f.took_effect), key=lambda f: f.at)
        self._lease = lease
        self._limits = limits
        self._sessions = SessionLosses(self._faults, ways, lease, limits.aftermath)

    def explain(self, earlier: Call, later_at: float) -> Cause | None:
        """Which fault can be why the outcome of `earlier` was not heard of by then."""
        if (earlier.node or "").startswith(REMOTE):
            return self._sessions.explains(earlier, later_at)
        fault = self._touching(earlier.node, earlier.began_at, later_at)
        if fault is None:
            return None
        return Cause(fault.kind, f"{fault.kind} of {fault.victim} at {fault.at:.3f}")

    def cause(self, extra: Surplus, blamed: set[int]) -> Cause | None:
        """Which fault can be why this call was made. A failure is blamed once."""
        causes = (self.explain(earlier, extra.call.began_at) for earlier in extra.instead_of)
        found = next((cause for cause in causes if cause is not None), None)
        if found is not None:
            return found
        for call, then in extra.failed:
            cause = None if id(call) in blamed else self.explain(call, then.began_at)
            if cause is not None:
                blamed.add(id(call))
                return cause
        return None

    def of_node(self, node: str | None, since: float, until: float) -> str:
        """What happened to a node, for those who look into it."""
        slack = self._lease + self._limits.aftermath
        near = [
            f"{fault.kind} from {fault.at:.3f} to {fault.healed_at:.3f}"
            for fault in self._faults
            if fault.victim == node and fault.at <= until and fault.healed_at + slack >= since
        ]
        return ", ".join(near) or "no fault of it was near"

    def struck(self, since: float) -> bool:
        """Whether whoever would have run a task was broken after this."""
        return any(
            not f.victim.startswith("api") and any(end >= since for _, end in _broken(f))
            for f in self._faults
        )

    def _touching(self, node: str | None, since: float, until: float) -> Fault | None:
        """A fault by which a node, or any where it is not known, or what all of them need was
        broken or had just been mended at some time in between: of several, the one that does most
        harm, and of those the last."""
        slack = self._lease + self._limits.aftermath
        near = [
            fault
            for fault in self._faults
            if _concerns(fault, node)
            and any(begin <= until and end + slack >= since for begin, end in _broken(fault))
        ]
        return min(near, key=lambda fault: (_harm(fault), -fault.at), default=None)

    def delayed(self, since: float, until: float) -> bool:
        """Whether a fault can be why something did not start in this time."""
        slack = self._lease + self._limits.recovery
        return any(f.at <= until and f.healed_at + slack >= since for f in self._faults)

    def end_of(self, call: Call, asked: Submitted) -> float:
        """When a call was over: where nobody saw it, when its process died or its time was up."""
        if call.ended_at is not None:
            return call.ended_at
        deaths = (
            fault.at
            for fault in self._faults
            if fault.kind in _DEADLY
            and (fault.victim == call.node or _concerns(fault, call.node))
            and fault.at >= call.began_at
        )
        return min([*deaths, call.began_at + asked.timeout_seconds])


def _harm(fault: Fault) -> int:
    """The less, the worse."""
    return _HARM.index(fault.kind) if fault.kind in _HARM else len(_HARM)


def _concerns(fault: Fault, node: str | None) -> bool:
    """An API and a remote worker start nothing that nodes run, and a node answers for nothing that
    another one runs."""
    if fault.victim.startswith(("api", *PIPE_RATES, REMOTE)):
        return False
    return node is None or fault.victim == node or not fault.victim.startswith("node")


def _broken(fault: Fault) -> tuple[tuple[float, float], ...]:
    """A node with a wrong clock was started with it and without it again; in between it must do
    everything right."""
    if fault.kind == "skew":
        return (fault.at, fault.at), (fault.healed_at, fault.healed_at)
    return ((fault.at, fault.healed_at),)

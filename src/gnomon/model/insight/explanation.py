"""The answer to "why is this task not running?". Pure: what is known in, plain words out."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from gnomon.model.fleet.crowding import crowd_fact
from gnomon.model.fleet.pool import Work, in_few_words
from gnomon.model.fleet.tenant import EXECUTIONS_PER_MINUTE
from gnomon.model.insight.circumstances import (
    COUNTED_AHEAD,
    Circumstances,
    FailingChore,
    LimitUse,
    OpenBreaker,
)
from gnomon.model.outcomes.endings import ending, ending_facts, remedies
from gnomon.model.tasks.execution import Execution
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.task import Task

_MOST_NAMED = 10  # nodes that are waited for
# The chores that reach workers through a broker, and how people write its name.
PIPES = {"redis-pipe": "Redis", "rabbitmq-pipe": "RabbitMQ", "kafka-pipe": "Kafka"}
_UNITS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


class HoldKind(StrEnum):
    """The kinds of things that keep a task from running."""

    LIMITER = "limiter"
    QUOTA = "quota"
    BREAKER = "breaker"  # of a host; without a name, of the tenant
    HANDLER = "handler"  # that no live worker has
    NODE = "node"  # that does not renew its lease
    TASK = "task"  # that must end before


class Hold(msgspec.Struct, frozen=True):
    """One thing that keeps a task from running, by its name."""

    kind: HoldKind
    name: str


class Explanation(msgspec.Struct, frozen=True):
    """One sentence, the facts behind it, what would help, and what holds the task up."""

    summary: str
    facts: list[str]
    remedies: list[str]
    held_by: list[Hold]


def explain(task: Task, around: Circumstances, executions: Sequence[Execution] = ()) -> Explanation:
    """Say why the task is where it is, and what will move it on. The executions are those of a task
    that has ended, or is a dead letter."""
    facts = _facts(task, around)
    if not has_ended(task.status):
        held_by = list(_holds(task, around))
        return Explanation(
            _summary(task, around), list(facts), list(_remedies(task, around, held_by)), held_by
        )
    return Explanation(
        ending(task), [*ending_facts(task, executions), *facts], list(remedies(task)), []
    )


def has_ended(status: Status) -> bool:
    """Whether nothing happens to the task by itself any more."""
    return status.is_over or status is Status.DEAD_LETTERED


def _summary(task: Task, around: Circumstances) -> str:
    match task.status:
        case Status.SCHEDULED:
            return f"It is not due yet: it runs {_ahead(around.due_at, around.now)}."
        case Status.FAILED:
            return f"Its last execution failed; it is retried {_ahead(around.due_at, around.now)}."
        case Status.READY:
            return _why_ready(task, around)
        case Status.RUNNING:
            node = around.running_on or "a node that has left"
            asked = " Its cancelling was asked for." if task.cancel_requested else ""
            what = "the worker session " if around.on_session else ""
            return f"It is running on {what}{node}.{asked}"
        case Status.PAUSED:
            return "It was paused, and runs only after it is resumed."
        case Status.BLOCKED:
            return _why_blocked(task, around)
        case Status.DEAD_LETTERED | Status.COMPLETED | Status.CANCELLED | Status.EXPIRED:
            raise AssertionError("how these ended is told apart")


def _why_ready(task: Task, around: Circumstances) -> str:
    pipe = _pipe_away(task, around)
    if around.server is None and pipe is not None:
        return pipe
    if around.server is None and around.nodes and _lacks_handler(task, around):
        return (
            f"It is due, but {_no_handler(task, around)}. Start one with `gnomon worker`; if the "
            f'handler was renamed, give it aliases=["{task.task_type}"].'
        )
    if around.server is None and around.nodes:
        work = Work(
            task.tenant_id, task.priority, task.task_type, task.queue, task.target.by_handler
        )
        return (
            f"It is due, but it is in no node's pool: none of those in the roster serves {work}. "
            "Start one that does, or one without a pool."
        )
    if around.server is None:
        return "It is due, but no scheduler node is in the roster; start one (`gnomon scheduler`)."
    if around.server_alive_until is not None and around.server_alive_until < around.now:
        return (
            f"It is due, but {around.server}, which serves its shard, has not renewed its lease; "
            "a peer takes over once it is declared dead."
        )
    breaker = next((b for b in _breakers(task, around) if b.node == around.server), None)
    if breaker is not None:
        return (
            f"It is due, but {_breaker(breaker)}: too many calls have failed. Then one task "
            "runs, and if it succeeds all do."
        )
    failing = next((f for f in around.failing if f.subject == f"task {task.task_id}"), None)
    if failing is not None:
        return f"It is due, but it was set aside: {failing.error}"
    limit = next(_limits(around), None)
    if limit is not None:
        return f"It is due, but {limit}."
    if around.ahead > 0:
        return f"It is due and waits its turn: {_count(around.ahead)} due before it in its shard."
    if pipe is not None:
        return pipe
    if around.by_session:
        return (
            f"It is due, and {around.server} delivers it to the next worker session that handles "
            "it and has a free slot."
        )
    return f"It is due, and {around.server} is about to start it."


def _pipe_away(task: Task, around: Circumstances) -> str | None:
    """Why remote workers get nothing, where they would run the task."""
    away = next((each for each in around.failing if each.chore in PIPES), None)
    remote = task.target.by_handler and (around.server is None or around.by_session)
    if away is None or not remote:
        return None
    return (
        f"It is due, but the {PIPES[away.chore]} that remote workers are reached through has not "
        f"answered {away.node} since {_stamp(away.since)}; they get nothing until it does."
    )


def _lacks_handler(task: Task, around: Circumstances) -> bool:
    handled = around.handled
    return task.target.by_handler and handled is not None and task.task_type not in handled


def _no_handler(task: Task, around: Circumstances) -> str:
    known = in_few_words(around.handled or ()) or "nothing"
    told = f"no live worker handles the task type {task.task_type!r}"
    return f"{told}; workers of its tenant handle: {known}"


def _breakers(task: Task, around: Circumstances) -> Iterator[OpenBreaker]:
    """Open breakers that keep the task from running."""
    host = task.target.host
    return (b for b in around.breakers if b.host is None or b.host == host)


def _breaker(breaker: OpenBreaker) -> str:
    what = "its tenant" if breaker.host is None else f"host {breaker.host}"
    return f"the breaker of {what} is open on {breaker.node} until {_stamp(breaker.until)}"


def _holds(task: Task, around: Circumstances) -> Iterator[Hold]:
    """What keeps the task from running now, or would if it were due."""
    if task.status is Status.RUNNING:
        return
    if _lacks_handler(task, around):
        yield Hold(HoldKind.HANDLER, task.task_type)
    lapses = around.server_alive_until
    if around.server is not None and lapses is not None and lapses < around.now:
        yield Hold(HoldKind.NODE, around.server)
    for host in dict.fromkeys(breaker.host for breaker in _breakers(task, around)):
        yield Hold(HoldKind.BREAKER, host or "")
    for use in _used_up(around):
        kind = HoldKind.QUOTA if use.name == EXECUTIONS_PER_MINUTE else HoldKind.LIMITER
        yield Hold(kind, use.name)
    if task.status is Status.BLOCKED and around.active_run is not None:
        yield Hold(HoldKind.TASK, str(around.active_run))
    if task.status is Status.BLOCKED:
        for waited in around.waits_for[:_MOST_NAMED]:
            yield Hold(HoldKind.TASK, str(waited.task_id))


_OWN_REMEDIES = {
    Status.SCHEDULED: "to run it sooner, move its time",
    Status.FAILED: "to try again at once, retry it",
    Status.PAUSED: "resume it",
    Status.RUNNING: "to end it, cancel it with interrupt",
}
_HELD_REMEDIES = {
    HoldKind.LIMITER: "wait until the limiter {name!r} has room again, or raise its limit",
    HoldKind.QUOTA: "wait for the next minute, or ask the operator for a larger quota {name!r}",
    HoldKind.BREAKER: "mend {name}: once a call succeeds, all go on",
    HoldKind.HANDLER: "start a worker that handles {name!r}, with `gnomon worker`",
    HoldKind.NODE: "a peer takes over by itself; look why {name} does not renew its lease",
    HoldKind.TASK: "wait until task {name} has ended, or cancel it",
}


def _remedies(task: Task, around: Circumstances, held_by: Sequence[Hold]) -> Iterator[str]:
    """What would let the task go on."""
    if task.status in _OWN_REMEDIES:
        yield _OWN_REMEDIES[task.status]
    for hold in held_by:
        name = hold.name or "what the tasks of the tenant call"
        yield _HELD_REMEDIES[hold.kind].format(name=name)
    if task.status is Status.READY and _pipe_away(task, around) is not None:
        yield "see to that broker: its workers connect by themselves when it answers"
    elif task.status is Status.READY and not held_by:
        yield "add nodes or slots where tasks wait long, or raise its priority"


def _used_up(around: Circumstances) -> Iterator[LimitUse]:
    for use in around.limits:
        by_running = use.concurrency is not None and use.running >= use.concurrency
        if by_running or (use.rate is not None and use.started >= use.rate):
            yield use


def _limits(around: Circumstances) -> Iterator[str]:
    """Limiters that are at their limit, in words."""
    for use in _used_up(around):
        of_key = f" for the key {use.key!r}" if use.key else ""
        kind = "the quota" if use.name == EXECUTIONS_PER_MINUTE else "limiter"
        reached = f"{kind} {use.name!r} is at its limit of"
        if use.concurrency is not None and use.running >= use.concurrency:
            yield f"{reached} {use.concurrency}{of_key} ({use.running} running)"
        else:
            yield f"{reached} {use.rate} starts in {use.per_seconds:g} s{of_key}"


def _failing(failing: FailingChore) -> str:
    """A failing chore in words. The error of one that is not the tenant's own may name others, so
    it is left out."""
    since = f"since {_stamp(failing.since)} on {failing.node}"
    if not failing.error:
        code = f" (SQLSTATE {failing.sqlstate})" if failing.sqlstate else ""
        return f"the chore {failing.chore!r} fails {since}{code}; `gnomon doctor` says more"
    about = f" for {failing.subject}" if failing.subject else ""
    return f"the chore {failing.chore!r} fails{about} {since}: {failing.error}; {failing.remedy}"


def _why_blocked(task: Task, around: Circumstances) -> str:
    if task.workflow_node is not None:
        return around.waits_batch or _why_node_blocked(task, around)
    if around.cron_job is None:
        return "It waits for other tasks to end."
    return (
        f"It is queued: it starts when the run of cron job {around.cron_job!r} before it "
        f"(task {around.active_run}) has ended."
    )


def _why_node_blocked(task: Task, around: Circumstances) -> str:
    if around.run_paused:
        return "Its workflow run is paused: it goes on once the run is resumed."
    if around.waits_signal is not None or around.waits_until is not None:
        return _why_node_waits(task, around)
    if not around.waits_for:
        return "Its turn in its workflow run has come: it starts in a moment."
    names = [str(each) for each in around.waits_for]
    dead = [each.node for each in around.waits_for if each.dead]
    dead += [each.dead_below for each in around.waits_for if each.dead_below is not None]
    shown = ", ".join(names[:_MOST_NAMED])
    if len(names) > _MOST_NAMED:
        shown += f" and {len(names) - _MOST_NAMED} more"
    held = ""
    if dead:
        held = f" {dead[0]} is a dead letter: retry it, and the run goes on by itself."
    return f"It is node {task.workflow_node} of a workflow run, and waits for {shown}.{held}"


def _why_node_waits(task: Task, around: Circumstances) -> str:
    end = "" if around.waits_until is None else f" until {_stamp(around.waits_until)}"
    if around.waits_signal is None:
        return f"It is node {task.workflow_node} of a workflow run, and waits{end}."
    return (
        f"It is node {task.workflow_node} of a workflow run, and waits for the signal "
        f"{around.waits_signal}{end}: `gnomon workflows runs signal {task.workflow_run_id} "
        f"{around.waits_signal}` sends it."
    )


def _facts(task: Task, around: Circumstances) -> Iterator[str]:
    yield f"status {task.status}, attempt {task.attempt}, priority {task.priority.name}"
    yield f"asked for {_stamp(task.execute_at)}; the time is {_stamp(around.now)}"
    ended = has_ended(task.status)
    if not ended and around.due_at is not None and around.due_at != task.execute_at:
        yield f"runs next at {_stamp(around.due_at)}"
    if around.stuck_since is not None and not ended:
        why = (around.stuck_reason or "").replace("_", " ")
        yield f"is stuck ({why}): it should have moved on at {_stamp(around.stuck_since)}"
    if around.cron_job is not None:
        yield f"a run of cron job {around.cron_job!r}"
    if task.expires_at is not None and (task.cron_job_id is None or task.attempt == 0):
        yield f"must not start after {_stamp(task.expires_at)}"
    if task.queue is not None:
        yield f"of queue {task.queue!r}"
    if task.preemptible and not ended:
        yield "may be preempted by a CRITICAL task"
    if task.last_error is not None and task.status is not Status.DEAD_LETTERED:  # told already
        yield f"last error: {task.last_error}"
    if not ended:
        if _lacks_handler(task, around):
            yield _no_handler(task, around)
        yield from map(_breaker, _breakers(task, around))
        yield from _limits(around)
        if around.crowd is not None:
            yield crowd_fact(task.priority, around.crowd)
        yield from map(_failing, around.failing)
    if around.run_until is not None:
        yield f"is taken over by others if it has not ended by {_stamp(around.run_until)}"
    if not ended:
        yield f"shard {around.shard}, served by {around.server or 'nobody'}"


def _ahead(due_at: datetime | None, now: datetime) -> str:
    if due_at is None:
        return "later"
    seconds = max(0.0, (due_at - now) / timedelta(seconds=1))
    return f"at {_stamp(due_at)}, in {_length(seconds)}"


def _length(seconds: float) -> str:
    """A time in two units at the most."""
    for unit, name, smaller, other in _UNITS:
        if seconds >= unit:
            rest = int(seconds % unit // smaller)
            return f"{int(seconds // unit)} {name}" + (f" {rest} {other}" if rest else "")
    return f"{seconds:.1f} s"


def _count(ahead: int) -> str:
    if ahead >= COUNTED_AHEAD:
        return f"at least {COUNTED_AHEAD} are"
    return "1 is" if ahead == 1 else f"{ahead} are"


def _stamp(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")

"""What a load asks for. Pure: the same seed and mix give the same orders."""

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from proof.campaigns.history import Action, Mode, Way

TIMEOUT = 5.0  # seconds, of every task whose try is short
ROOM = 2.5  # times the longest try: on a busy machine one takes longer than it was asked to
PATIENT = 50  # retries: enough for a receiver that is away for a while
RETRY = {"backoff": "fixed", "base_seconds": 0.2, "max_seconds": 0.2, "jitter": False}
RUN_SIZE = 6  # nodes of a workflow run
BATCH_SIZE = 8  # members of a batch, and its callback
POISON = 1_000_000  # tries that fail: all of them

_T = TypeVar("_T")


class Mix(msgspec.Struct, frozen=True, kw_only=True):
    """Of what, how much: shares of one, and for modes and functions weights."""

    modes: dict[Mode, float] = msgspec.field(
        default_factory=lambda: {"at_least_once": 5.0, "at_most_once": 2.0, "exactly_once": 3.0}
    )
    # Functions by their names; "webhook" is the observer. An effect is always exactly_once.
    targets: dict[str, float] = msgspec.field(
        default_factory=lambda: {"webhook": 5.0, "function": 3.0, "thread": 1.0, "effect": 3.0}
    )
    single: float = 0.2  # not in a batch
    late_commit: float = 0.02  # by plain SQL, in a transaction that stays open
    failing: float = 0.15  # by their receivers, once or twice
    doomed: float = 0.02  # fail more often than they may
    changed: float = 0.1  # cancelled, interrupted or paused
    poison: float = 0.0  # kill their node
    workflows: float = 0.0  # come as runs of a workflow: one, then several, then a join
    batches: float = 0.0  # come in batches of tasks, with what follows when all have succeeded
    longest_delay: float = 6.0  # seconds until it is due
    instants: float = 0.0  # functions that are due later are so at multiples of these seconds
    longest_run: float = 0.4  # seconds that a try takes

    @property
    def timeout(self) -> float:
        """Seconds, of every task: no try that goes well comes near them."""
        return max(TIMEOUT, ROOM * self.longest_run)


# Remote workers have no database for effects; their handlers are the greater part.
REMOTE = Mix(targets={"webhook": 1.0, "function": 5.0, "thread": 2.0})


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A task to be submitted, and what is to be done about it afterwards."""

    n: int
    mode: Mode
    target: str
    single: bool
    delay: float  # seconds until it is due
    seconds: float
    timeout: float = TIMEOUT
    instants: float = 0.0  # it is due at the next multiple of these seconds
    fails: int = 0
    max_retries: int = PATIENT
    hold: float | None = None  # seconds that its transaction stays open: by plain SQL
    change: Action | None = None
    change_at: float = 0.0  # seconds after it is due, or before
    resume_after: float | None = None  # seconds; None: a pause is for good
    run: int | None = None  # the first of the workflow run that it is a node of
    batch: int | None = None  # the first of the batch that it is a member or the callback of
    after: tuple[int, ...] = ()  # the nodes of the run, or members of the batch, it waits for

    @property
    def way(self) -> Way:
        if self.target == "webhook":
            return "webhook"
        return "effect" if self.target == "effect" else "function"

    @property
    def payload(self) -> dict[str, Any]:
        return {"n": self.n, "seconds": self.seconds, "fails": self.fails, "mode": self.mode}

    def target_for(self, observer_url: str) -> dict[str, str]:
        if self.target == "webhook":
            return {"type": "http", "url": observer_url}
        return {"type": "python", "function": self.target}

    @property
    def retry_policy(self) -> dict[str, Any]:
        return {"max_retries": self.max_retries, **RETRY}

    def due_at(self, asked_at: float) -> float:
        """When it is to start, if it is submitted then."""
        due = asked_at + self.delay
        return due if not self.instants else math.ceil(due / self.instants) * self.instants

    def body(self, due_at: float, key: str, observer_url: str) -> dict[str, Any]:
        """As the API takes it."""
        times = {"execute_at": rfc3339(due_at), "idempotency_key": key}
        return self._task(observer_url) | times

    def node(self, observer_url: str) -> dict[str, Any]:
        """As a node of a workflow."""
        return self._task(observer_url) | {"after": [f"n{each}" for each in self.after]}

    def callback(self, observer_url: str) -> dict[str, Any]:
        """As the callback of a batch."""
        return self._task(observer_url)

    def _task(self, observer_url: str) -> dict[str, Any]:
        return {
            "task_type": "proof" if self.target == "webhook" else self.target,
            "payload": self.payload,
            "target": self.target_for(observer_url),
            "delivery": self.mode,
            "retry_policy": self.retry_policy,
            "timeout_seconds": self.timeout,
        }


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def rfc3339(seconds: float) -> str:
    return moment(seconds).isoformat()


def orders(seed: int, mix: Mix) -> Iterator[Order]:
    """Without end."""
    chance, numbers = random.Random(f"load {seed}"), itertools.count(1)
    for n in numbers:
        if mix.workflows and chance.random() < mix.workflows / RUN_SIZE:
            yield from _run([n, *itertools.islice(numbers, RUN_SIZE - 1)], chance, mix)
        elif mix.batches and chance.random() < mix.batches / BATCH_SIZE:
            yield from _batch([n, *itertools.islice(numbers, BATCH_SIZE - 1)], chance, mix)
        else:
            yield _drawn(n, chance, mix)


def _run(numbers: Sequence[int], chance: random.Random, mix: Mix) -> Iterator[Order]:
    """The nodes of a workflow: the first, those that wait for it, and the join of them."""
    first, *middle, last = numbers
    for n in numbers:
        order = _succeeding(n, chance, mix)
        after = () if n == first else tuple(middle) if n == last else (first,)
        yield msgspec.structs.replace(order, run=first, after=after)


def _batch(numbers: Sequence[int], chance: random.Random, mix: Mix) -> Iterator[Order]:
    """The members of a batch, and what follows when all have succeeded."""
    *members, last = numbers
    for n in numbers:
        order = _succeeding(n, chance, mix)
        after = tuple(members) if n == last else ()
        yield msgspec.structs.replace(order, batch=numbers[0], after=after)


def _succeeding(n: int, chance: random.Random, mix: Mix) -> Order:
    target = _weighed(chance, mix.targets)
    return Order(
        n=n,
        mode="exactly_once" if target == "effect" else "at_least_once",
        target=target,
        single=True,
        delay=0.0,
        seconds=round(chance.choice((0.0, 1.0)) * chance.uniform(0.0, mix.longest_run), 3),
        timeout=mix.timeout,
        fails=int(chance.random() < mix.failing),
    )


def _drawn(n: int, chance: random.Random, mix: Mix) -> Order:
    target = _weighed(chance, mix.targets)
    mode: Mode = "exactly_once" if target == "effect" else _weighed(chance, mix.modes)
    order = Order(
        n=n,
        mode=mode,
        target=target,
        single=chance.random() < mix.single,
        # Half of them at once, and no two at the same fraction of a second.
        delay=chance.choice((0.0, 1.0)) * chance.uniform(0.0, mix.longest_delay),
        seconds=round(chance.choice((0.0, 0.0, 1.0)) * chance.uniform(0.0, mix.longest_run), 3),
        timeout=mix.timeout,
        max_retries=0 if mode == "at_most_once" else PATIENT,
    )
    if target == "function" and order.delay:
        order = msgspec.structs.replace(order, instants=mix.instants)
    luck = chance.random()
    for share, make in (
        (mix.poison, _poisonous),
        (mix.late_commit, _by_sql),
        (mix.doomed, _doomed),
        (mix.failing, _failing),
        (mix.changed, _to_be_changed),
    ):
        if luck < share:
            return make(order, chance)
        luck -= share
    return order


def _poisonous(order: Order, chance: random.Random) -> Order:
    return msgspec.structs.replace(order, target="poison", mode="at_least_once", fails=POISON)


def _by_sql(order: Order, chance: random.Random) -> Order:
    """Due while its transaction is open, or soon after."""
    hold = chance.uniform(1.0, 4.0)
    return msgspec.structs.replace(
        order,
        mode="exactly_once" if order.target == "effect" else "at_least_once",
        max_retries=PATIENT,
        delay=chance.uniform(0.0, hold + 1.0),
        hold=hold,
    )


def _doomed(order: Order, chance: random.Random) -> Order:
    max_retries = 0 if order.mode == "at_most_once" else chance.randint(0, 2)
    return msgspec.structs.replace(order, fails=max_retries + 1, max_retries=max_retries)


def _failing(order: Order, chance: random.Random) -> Order:
    return msgspec.structs.replace(order, fails=chance.randint(1, 2))


def _to_be_changed(order: Order, chance: random.Random) -> Order:
    """Most changes come before the task is due, some when it is."""
    change: Action = chance.choice(("cancel", "interrupt", "pause"))
    resume_after = chance.uniform(0.3, 3.0) if change == "pause" else None
    if chance.random() < 0.1:
        resume_after = None
    running = change == "interrupt"
    return msgspec.structs.replace(
        order,
        delay=chance.uniform(1.0, 4.0),
        seconds=round(chance.uniform(0.3, 0.8), 3) if running else order.seconds,
        change=change,
        change_at=chance.uniform(-0.3, 0.6) if running else min(0.1, chance.uniform(-1.5, 0.4)),
        resume_after=resume_after,
    )


def _weighed(chance: random.Random, weights: Mapping[_T, float]) -> _T:
    return chance.choices(list(weights), list(weights.values()))[0]

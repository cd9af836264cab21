"""Permits of a node: what is taken, returned, refused and doubted, without a store."""

from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from uuid import UUID

from tests.unit.fair_entries import START, entry

from gnomon.clock import SystemClock
from gnomon.fair import FairQueue
from gnomon.model.flow import Flow
from gnomon.model.lane import Lane
from gnomon.model.limit import Bucket, Limiter
from gnomon.model.outcome import Outcome, OutcomeKind
from gnomon.model.retry import RetryPolicy
from gnomon.model.target import PythonTarget
from gnomon.model.task import TaskKey
from gnomon.model.tenant import Quotas
from gnomon.pipe.envelope import Delivery, Report
from gnomon.scheduler.accounts import Account, Wish
from gnomon.scheduler.agenda import Agenda
from gnomon.scheduler.flows import FlowBook
from gnomon.scheduler.permits import Permits
from gnomon.store.limit_port import Ask, Grant
from gnomon.store.port import Entry

ALL = Limiter(tenant_id="acme", name="all", concurrency=2)
MAIL = Limiter(tenant_id="acme", name="mail", task_type="mail", rate=5)
BY_KEY = Limiter(tenant_id="acme", name="z", key="/who", concurrency=1)


class Known:
    """Limits that a test sets."""

    def __init__(self, *limiters: Limiter, quota: int | None = None) -> None:
        self.found: Sequence[Limiter] = limiters
        self.quota = quota
        self.told: list[Callable[[], None]] = []

    def limiters(self, tenant_id: str) -> Sequence[Limiter]:
        return self.found if tenant_id == "acme" else ()

    def quotas(self, tenant_id: str) -> Quotas:
        return Quotas(executions_per_minute=self.quota if tenant_id == "acme" else None)

    def on_change(self, told: Callable[[], None]) -> None:
        self.told.append(told)

    def change(self, *limiters: Limiter) -> None:
        self.found = limiters
        for told in self.told:
            told()


class Flows:
    """The store, as far as a node looks up flows."""

    def __init__(self) -> None:
        self.rows: dict[TaskKey, tuple[Entry, Flow]] = {}

    async def flows_of(self, keys: Collection[TaskKey]) -> list[tuple[Entry, Flow]]:
        return [self.rows[key] for key in keys if key in self.rows]

    async def exchange(self, node: UUID, turn: int, asks: Sequence[Ask]) -> list[Grant]:
        raise NotImplementedError

    async def wanted(self, node: UUID) -> list[Bucket]:
        raise NotImplementedError

    async def running(self, node: UUID) -> set[TaskKey] | None:
        raise NotImplementedError


class World:
    def __init__(self, *limiters: Limiter, quota: int | None = None) -> None:
        self.time = 0.0
        self.known = Known(*limiters, quota=quota)
        self.woken = 0
        self.agenda = Agenda(FairQueue(), START, 100)
        clock = SystemClock(lambda: self.time)
        self.permits = Permits(self.known, self.agenda, clock, self._wake)

    def _wake(self) -> None:
        self.woken += 1

    def learn(self, number: int, **flow: str) -> None:
        """Claim something of a flow once, so that it is known."""
        self.permits.claimed(delivery(entry(999, flow=number), **flow))

    def give(self, bucket: str, permits: int = 0, starts: int = 0, key: str = "") -> Account:
        account = self.permits.accounts[Bucket("acme", bucket, key)]
        ask = account.ask(Wish(100, stopping=False), self.time)
        until = START + timedelta(seconds=1)
        grant = Grant(account.bucket, permits, permits, starts, until, 1.0, contended=False)
        account.granted(grant, ask, self.time, self.time)
        self.permits.let_in(account)
        return account

    def admit(self, *entries: Entry) -> list[bool]:
        return [self.permits.admit(each) for each in entries]


def delivery(
    of: Entry, task_type: str = "test", limit_keys: str | None = None, queue: str | None = None
) -> Delivery:
    return Delivery(
        key=of.key, fence=1, incarnation=UUID(int=1), attempt=1, retries_left=0, losses=0,
        target=PythonTarget("f"), payload=None, payload_size=None, timeout_seconds=30,
        retry_policy=RetryPolicy(), task_type=task_type, lane=Lane.MEDIUM, scheduled_for=0.0,
        start_by=0.0, idempotency_key=None, expired=False, queue=queue, limit_keys=limit_keys,
        flow=of.flow,
    )  # fmt: skip


def test_who_is_not_limited_needs_nothing() -> None:
    world = World(ALL)
    assert world.admit(entry(1, tenant="other", flow=5)) == [True]
    assert not world.permits.accounts
    world.learn(7, task_type="free")
    world.known.change(MAIL)
    assert world.admit(entry(2, flow=7)) == [True]


def test_a_permit_is_used_until_the_end() -> None:
    world = World(ALL)
    world.learn(1)
    first, second, third = (entry(n) for n in (1, 2, 3))
    assert world.admit(first) == [False]
    world.give("all", permits=2)
    assert world.admit(first, second, third) == [True, True, False]
    assert world.permits.claimed(delivery(first))
    world.permits.missed([second.key])
    assert world.admit(third) == [True]
    world.permits.ended(Report(delivery(first), Outcome(OutcomeKind.SUCCEEDED)))
    assert world.permits.accounts[Bucket("acme", "all")].used == 1


def test_all_permits_or_none() -> None:
    world = World(ALL, MAIL)
    world.learn(1, task_type="mail")
    mail = entry(1)
    world.admit(mail)
    account = world.give("all", permits=2)
    assert world.admit(mail) == [False]
    assert account.used == 0
    world.give("mail", starts=1)
    assert world.admit(mail, entry(2)) == [True, False]
    assert account.used == 1


def test_a_key_has_a_bucket_of_its_own() -> None:
    world = World(BY_KEY)
    world.learn(1, limit_keys='{"z":"ann"}')
    world.learn(2, limit_keys='{"z":"bob"}')
    world.admit(entry(1, flow=1), entry(2, flow=2))
    world.give("z", permits=1, key="ann")
    assert world.admit(entry(1, flow=1), entry(2, flow=2)) == [True, False]


def test_a_start_is_used_once_and_in_time() -> None:
    world = World(MAIL)
    world.learn(1, task_type="mail")
    task, other = entry(1), entry(2)
    world.admit(task)
    world.give("mail", starts=2)
    assert world.admit(task, other) == [True, True]
    claimed = delivery(task, task_type="mail")
    assert world.permits.claimed(claimed)
    assert world.permits.may_call(claimed)
    world.permits.ended(Report(delivery(other, task_type="mail")))  # not called: given back
    assert world.admit(entry(3)) == [True]
    world.permits.ended(Report(delivery(entry(3)), Outcome(OutcomeKind.FAILED)))
    assert world.admit(entry(4)) == [False]
    world.time = 0.995  # on its way, it would be too late
    assert not world.permits.may_call(claimed)


def test_what_may_have_been_claimed_keeps_its_permits() -> None:
    world = World(ALL)
    world.learn(1)
    task, other = entry(1), entry(2)
    world.admit(task)
    account = world.give("all", permits=1)
    assert world.admit(task) == [True]
    # The claim failed, or was made and its answer was lost: it is asked for again.
    assert world.admit(task, other) == [True, False]
    world.permits.missed([task.key])
    assert account.used == 1, "the first claim may be what the second one missed"
    assert world.permits.unclaimed(held={}) == [task.key]
    assert world.permits.unclaimed(held={task.key: 1}) == []
    world.permits.free([task.key])
    assert account.used == 0


def test_what_runs_for_good_keeps_its_permits() -> None:
    world = World(ALL)
    world.learn(1)
    world.admit(entry(1))
    account = world.give("all", permits=1)
    assert world.admit(entry(1)) == [True]
    world.permits.stuck = {entry(1).key}
    world.permits.ended(Report(delivery(entry(1)), Outcome(OutcomeKind.SUCCEEDED)))
    assert account.used == 1


def test_what_is_claimed_must_have_what_its_row_needs() -> None:
    world = World()
    world.known.found = (ALL,)
    assert not world.permits.claimed(delivery(entry(1))), "a limiter that is new"
    world.known.change()
    assert world.permits.claimed(delivery(entry(1)))


def test_flows_that_wait_are_let_in_when_there_is_something_to_take() -> None:
    world = World(ALL)
    world.learn(1)
    tasks = [entry(n) for n in range(1, 4)]
    world.agenda.add(tasks)
    world.agenda.advance(START)
    assert world.agenda.take(5, world.permits.admit, suspect=False) == []
    assert world.permits.wanted.is_set()
    world.give("all", permits=1)
    assert world.woken == 1
    (taken,) = world.agenda.take(5, world.permits.admit, suspect=False)
    world.permits.ended(Report(delivery(taken), Outcome(OutcomeKind.SUCCEEDED)))
    assert len(world.agenda.take(5, world.permits.admit, suspect=False)) == 1
    world.known.change()
    assert len(world.agenda.take(5, world.permits.admit, suspect=False)) == 1


def test_a_quota_of_executions_is_a_limiter() -> None:
    world = World(quota=7)
    world.learn(1)
    assert world.admit(entry(1)) == [False]
    account = world.permits.accounts[Bucket("acme", "executions_per_minute")]
    assert account.ask(Wish(3, stopping=False), 0.0).rate == 7


def test_more_is_returned_than_is_not_allowed() -> None:
    account = Account(Bucket("acme", "all"), ALL, 0.0)
    grant = Grant(account.bucket, 5, 5, 0, None, 0.0, contended=False)
    account.granted(grant, account.ask(Wish(5, stopping=False), 0.0), 0.0, 0.0)
    account.used = 3
    told = Grant(account.bucket, 5, 2, 0, None, 0.0, contended=True)
    ask = account.ask(Wish(5, stopping=False), 0.0)
    assert (ask.kept, ask.wanted) == (5, 8)
    account.granted(told, ask, 0.0, 0.0)
    assert account.has_surplus
    ask = account.ask(Wish(5, stopping=False), 0.0)
    assert (ask.kept, ask.wanted) == (3, 8)
    assert account.ask(Wish(5, stopping=True), 0.0).wanted == 3


async def test_flows_are_looked_up_once_and_forgotten_in_time() -> None:
    book, store = FlowBook(most=2), Flows()
    for number in range(1, 5):
        each = entry(number, flow=number)
        store.rows[each.key] = (each, Flow("acme", f"type-{number}"))
        assert book.find(each) is None
    gone = entry(9, flow=9)
    assert book.find(gone) is None
    looked = await book.look_up(store)
    assert set(looked.flows) == {("acme", n) for n in (1, 2, 3, 4, 9)}
    assert looked.changed == []
    assert (await book.look_up(store)).flows == []
    assert book.is_stale(gone), "the task is gone"
    assert not book.is_stale(gone), "said once"
    assert book.find(entry(5, flow=4)) == Flow("acme", "type-4")
    assert len(book) == 2
    # An entry that does not say its flow is known by its key alone.
    unknown = entry(1, flow=0)
    assert book.find(unknown) is None
    assert (await book.look_up(store)).flows == [("acme", 0)]
    assert book.find(unknown) == Flow("acme", "type-1")
    assert book.find(entry(2, flow=0)) is None


async def test_a_task_of_another_flow_is_found_out() -> None:
    book, store = FlowBook(), Flows()
    before, after = entry(1, flow=1), entry(1, flow=2)
    store.rows[before.key] = (after, Flow("acme", "changed"))
    assert book.find(before) is None
    assert await book.look_up(store) == ([("acme", 1)], [after])
    assert book.find(after) == Flow("acme", "changed")
    assert book.is_stale(before)

"""Permits of a node: what is taken, returned, refused and doubted, without a store."""

from collections.abc import Sequence
from datetime import timedelta

import msgspec
import pytest
from tests.unit.fairness.fair_entries import START, entry
from tests.unit.limits.permit_world import World, delivery

from gnomon.limits.exchange import PermitGrant, Starts, Told
from gnomon.limits.holdings import Holding, Wish
from gnomon.limits.limiter import Bucket, Limiter
from gnomon.limits.store_time import StoreTime
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.node.start_checks import StartChecks
from gnomon.notify.notification import NOTIFIER_TENANT
from gnomon.pipe.envelope import Report
from gnomon.store.ports.dispatch import Entry

ALL = Limiter(tenant_id="acme", name="all", concurrency=2)
MAIL = Limiter(tenant_id="acme", name="mail", task_type="mail", rate=5)
BY_KEY = Limiter(tenant_id="acme", name="z", key="/who", concurrency=1)


def test_who_is_not_limited_needs_nothing() -> None:
    world = World(ALL)
    assert world.admit(entry(1, tenant="other", flow=5)) == [True]
    assert not world.permits.accounts
    world.learn(7, task_type="free")
    world.known.change(MAIL)
    assert world.admit(entry(2, flow=7)) == [True]


def test_nothing_is_asked_about_a_tenant_only_while_it_has_no_limits() -> None:
    world = World(ALL)
    checks = StartChecks([world.permits])
    assert checks.admits_all("other")
    assert not checks.admits_all("acme")
    assert not checks.admits_all(NOTIFIER_TENANT)  # its channels are limited, always
    world.known.change()
    assert checks.admits_all("acme")
    world.known.change(ALL)
    assert not checks.admits_all("acme")


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


@pytest.mark.parametrize("kind", [*OutcomeKind, None])
def test_a_permit_is_returned_however_the_task_ended(kind: OutcomeKind | None) -> None:
    world = World(ALL)
    world.learn(1)
    first, second, third = (entry(n) for n in (1, 2, 3))
    world.admit(first)
    account = world.give("all", permits=2)
    assert world.admit(first, second, third) == [True, True, False]
    world.permits.claimed(delivery(first))
    report = Report(delivery(first), None if kind is None else Outcome(kind))
    world.permits.called(report)
    world.permits.ended(report)
    assert account.used == 1
    assert world.admit(third) == [True]


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


def test_the_store_is_told_when_starts_were_made_and_which_will_not_be() -> None:
    world, tasks = mailing(5, started=(0.36, 0.365, 0.4))
    world.give("mail")
    assert world.told == [], "they may be on their way"
    for number, at in enumerate((0.425, 0.43, 0.45)):
        world.time = at
        world.permits.called(sent(tasks[number]))
    world.give("mail")
    assert world.made() == [
        (2, 0.43),
        (1, 0.45),
    ]
    world.time = 0.995  # too late for the last two, whatever becomes of them
    world.give("mail")
    assert world.told[2:] == [Told(START + timedelta(seconds=1), 2)]
    for task in tasks:
        world.permits.ended(Report(delivery(task, task_type="mail")))
    world.give("mail")
    assert len(world.told) == 3


def test_a_call_that_does_not_come_back_is_taken_to_have_arrived_in_the_end() -> None:
    """Not by when it was made: the node may have stood still right after that."""
    world, tasks = mailing(4, started=(0.2, 0.25, 0.5))
    account = world.permits.accounts[Bucket("acme", "mail")]
    assert account.has_news(world.time)
    world.give("mail")
    assert world.made() == [(2, 0.51)]
    # Which of them came back is not known to the batch: two are counted as arrived, and stay so.
    world.permits.called(sent(tasks[2]))
    world.permits.called(sent(tasks[0]))
    world.give("mail")
    assert len(world.told) == 1
    world.permits.called(sent(tasks[1]))
    world.give("mail")
    assert world.made()[1:] == [(1, 0.5)]
    world.time = 0.7
    assert not account.has_news(world.time)


def test_a_call_that_is_on_its_way_when_the_others_run_out_is_not_returned() -> None:
    world, _ = mailing(3, started=(0.95,))
    world.time = 0.995
    world.give("mail")
    assert world.told == [Told(START + timedelta(seconds=1), 2)]


def test_starts_of_an_earlier_rate_are_returned() -> None:
    world, _ = mailing(1, started=(0.1,), starts=5)
    world.known.change(msgspec.structs.replace(MAIL, rate=1))
    assert world.admit(entry(7)) == [False]
    world.give("mail")
    assert world.told == [Told(START + timedelta(seconds=1), 4)]
    assert world.admit(entry(7)) == [False]


def mailing(
    number: int, started: Sequence[float], starts: int | None = None
) -> tuple[World, list[Entry]]:
    """Tasks with a start each, of which some are called."""
    world = World(MAIL)
    world.learn(1, task_type="mail")
    tasks = [entry(n) for n in range(1, number + 1)]
    world.admit(tasks[0])
    world.give("mail", starts=starts or number)
    assert all(world.admit(*tasks))
    for task, at in zip(tasks, started, strict=False):
        world.time = at
        assert world.permits.may_call(delivery(task, task_type="mail"))
    return world, tasks


def sent(task: Entry) -> Report:
    return Report(delivery(task, task_type="mail"), Outcome(OutcomeKind.SUCCEEDED))


def test_a_start_that_is_granted_ahead_is_used_from_then_on() -> None:
    world = World(MAIL)
    world.learn(1, task_type="mail")
    world.admit(entry(1))
    account = world.give("mail", starts=1, later=0.3)
    assert world.admit(entry(1)) == [False]
    assert account.next_start() == pytest.approx(0.3, abs=0.001)
    world.time = 0.31
    assert world.admit(entry(1), entry(2)) == [True, False]


def test_a_start_that_ran_out_on_the_way_is_made_up_for() -> None:
    world = World(MAIL)
    world.learn(1, task_type="mail")
    world.admit(entry(1))
    world.give("mail", starts=1)
    assert world.admit(entry(1)) == [True]
    world.time = 2.0
    world.give("mail", starts=1)
    assert world.permits.may_call(delivery(entry(1), task_type="mail"))
    assert world.admit(entry(2)) == [False], "that one is used"


def test_starts_that_run_out_before_the_call_are_asked_for_with_a_longer_time() -> None:
    """Or tasks would be claimed and given back for ever, where a claim takes longer than that."""
    world = World(MAIL)
    world.learn(1, task_type="mail")
    task, claimed = entry(1), delivery(entry(1), task_type="mail")
    world.admit(task)
    for _ in range(5):
        world.give("mail", starts=1)
        assert world.admit(task) == [True]
        world.time += 5.0  # for the claim
        assert world.permits.claimed(claimed)
        if world.permits.may_call(claimed):
            break
        world.permits.ended(Report(claimed))
    else:
        raise AssertionError("it never starts")
    world.time += 61.0
    account = world.permits.accounts[Bucket("acme", "mail")]
    assert account.ask(Wish(1, stopping=False), world.time).seconds == 0.0


def test_who_is_called_again_needs_another_start() -> None:
    world = World(MAIL)
    world.learn(1, task_type="mail")
    task = entry(1)
    world.admit(task)
    world.give("mail", starts=1)
    assert world.admit(task) == [True]
    assert world.permits.may_call(delivery(task, task_type="mail"))
    assert world.admit(task) == [False], "the first try was taken over, and goes on"


def test_what_is_in_use_as_before_is_not_worth_a_call() -> None:
    world = World(ALL)
    world.learn(1)
    world.admit(entry(1))
    account = world.give("all", permits=2)
    assert world.admit(entry(1)) == [True]
    world.time = 5.0
    assert not account.has_news(world.time)
    world.time = 15.1
    assert account.has_news(world.time), "a permit is idle"
    assert world.admit(entry(2)) == [True]
    assert not account.has_news(world.time)
    world.time = 61.0
    assert account.has_news(world.time)
    world.give("all", permits=2)
    assert not account.has_news(world.time), "it was just asked about"
    account.contended = True
    assert account.has_news(world.time)


def test_a_permit_is_idle_from_its_last_use_on() -> None:
    world = World(ALL)
    world.learn(1)
    world.admit(entry(1))
    account = world.give("all", permits=2)
    world.time = 15.0
    assert world.admit(entry(1)) == [True]
    world.permits.ended(Report(delivery(entry(1)), Outcome(OutcomeKind.SUCCEEDED)))
    assert not account.has_news(world.time)
    world.time = 24.9
    assert not account.has_news(world.time)
    assert account.ask(Wish(0, stopping=False), world.time).kept == 2
    world.time = 25.1
    assert account.has_news(world.time)
    assert account.ask(Wish(0, stopping=False), world.time).kept == 0


def test_no_more_starts_are_asked_for_than_are_wanted() -> None:
    world, _ = mailing(1, started=(), starts=5)
    account = world.permits.accounts[Bucket("acme", "mail")]
    asked = [account.ask(Wish(waiting, stopping=False), 0.0).starts for waiting in (0, 0, 2, 3)]
    assert asked[1:] == [0, 0, 2], "twice what waits, less the four that are left"


def test_more_starts_are_asked_for_when_the_last_of_them_are_used() -> None:
    world = World(MAIL)
    world.learn(1, task_type="mail")
    world.admit(entry(1))
    account = world.permits.accounts[Bucket("acme", "mail")]
    time = StoreTime()
    time.heard(START, 0.0, 0.0)
    starts = [Starts(n, START, START + timedelta(seconds=until)) for n, until in ((1, 1), (4, 2))]
    ask = account.ask(Wish(4, stopping=False), 0.0)
    grant = PermitGrant(account.bucket, START, 0, 0, contended=False, starts=starts)
    account.granted(grant, ask, time, 0.0)
    world.permits.hot.clear()
    assert world.admit(*(entry(n) for n in range(1, 4))) == [True] * 3
    assert not world.permits.hot
    assert world.admit(entry(4)) == [True]
    assert world.permits.hot == {account}


def test_a_flow_that_is_known_by_now_is_let_in_when_nothing_lacks() -> None:
    world = World(ALL)
    assert not world.permits.expect(("acme", 1)), "it is not known"
    world.learn(1)
    assert world.permits.expect(("acme", 1))
    account = world.permits.accounts[Bucket("acme", "all")]
    assert list(account.flows) == [("acme", 1)]
    assert world.permits.hot == {account}
    world.give("all", permits=1)
    assert not world.permits.expect(("acme", 1))
    world.known.change()
    assert not world.permits.expect(("acme", 1)), "there is no limit any more"


def test_only_what_has_changed_is_asked_about() -> None:
    world = World(ALL, MAIL)
    world.learn(1, task_type="mail")
    world.admit(entry(1))
    world.permits.hot.clear()
    more = msgspec.structs.replace(ALL, concurrency=3)
    world.known.change(more, MAIL)
    assert [account.limiter for account in world.permits.hot] == [more]


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
    assert world.permits.unclaimed() == [task.key]
    world.held.fences[task.key] = 1
    assert world.permits.unclaimed() == []
    world.permits.free([task.key])
    assert account.used == 0


MAILS = Limiter(tenant_id="acme", name="mails", task_type="mail", concurrency=1)
RATE = Limiter(tenant_id="acme", name="rate", rate=5)


def test_what_may_have_been_claimed_takes_only_what_it_lacks_by_now() -> None:
    """It was changed since it was chosen first, and needs more."""
    world = World(ALL, MAILS)
    world.learn(1)
    world.learn(2, task_type="mail")
    world.admit(entry(1))
    every = world.give("all", permits=2)
    assert world.admit(entry(1)) == [True]
    assert world.admit(entry(1, flow=2)) == [False]
    mails = world.give("mails", permits=1)
    assert world.admit(entry(1, flow=2)) == [True]
    assert (every.used, mails.used) == (1, 1)
    assert world.permits.claimed(delivery(entry(1, flow=2), task_type="mail"))
    world.permits.ended(Report(delivery(entry(1, flow=2)), Outcome(OutcomeKind.SUCCEEDED)))
    assert (every.used, mails.used) == (0, 0)


def test_what_is_claimed_as_another_flow_needs_all_that_its_row_does_and_keeps_no_more() -> None:
    world = World(ALL, MAILS, MAIL, RATE)
    world.learn(1)
    world.learn(2, task_type="mail")
    world.admit(entry(1), entry(1, flow=2))
    every, mails = world.give("all", permits=3), world.give("mails", permits=1)
    world.give("mail", starts=1)
    rate = world.give("rate", starts=3)
    assert world.admit(entry(1), entry(2, flow=2)) == [True, True]
    assert not world.permits.claimed(delivery(entry(1, flow=2), task_type="mail"))
    assert world.permits.claimed(delivery(entry(2, flow=1)))
    assert (every.used, mails.used) == (2, 0)
    assert rate.batches[0].left == 1
    assert world.admit(entry(3, flow=2)) == [True], "what it does not need is free again"


def test_what_has_its_permits_and_needs_no_start_may_be_claimed_as_another_flow() -> None:
    world = World(ALL)
    world.learn(1)
    world.admit(entry(1))
    account = world.give("all", permits=1)
    assert world.admit(entry(1)) == [True]
    assert world.permits.claimed(delivery(entry(1, flow=2), task_type="other"))
    assert account.used == 1


def test_what_runs_for_good_keeps_its_permits() -> None:
    world = World(ALL)
    world.learn(1)
    world.admit(entry(1))
    account = world.give("all", permits=1)
    assert world.admit(entry(1)) == [True]
    world.held.stuck[entry(1).key] = 1
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
    assert world.agenda.take(5, SuspectRoom(1, 1), world.permits.admit) == []
    assert world.permits.wanted.is_set()
    world.give("all", permits=1)
    assert world.woken == 1
    (taken,) = world.agenda.take(5, SuspectRoom(1, 1), world.permits.admit)
    world.permits.ended(Report(delivery(taken), Outcome(OutcomeKind.SUCCEEDED)))
    assert len(world.agenda.take(5, SuspectRoom(1, 1), world.permits.admit)) == 1
    world.known.change()
    assert len(world.agenda.take(5, SuspectRoom(1, 1), world.permits.admit)) == 1


def test_a_quota_of_executions_is_a_limiter() -> None:
    world = World(quota=7)
    world.learn(1)
    assert world.admit(entry(1)) == [False]
    account = world.permits.accounts[Bucket("acme", "executions_per_minute")]
    assert account.ask(Wish(3, stopping=False), 0.0).rate == 7


def test_more_is_returned_than_is_not_allowed() -> None:
    account = Holding(Bucket("acme", "all"), ALL, 0.0)
    grant = PermitGrant(account.bucket, START, 5, 5, contended=False)
    account.granted(grant, account.ask(Wish(5, stopping=False), 0.0), StoreTime(), 0.0)
    account.used = 3
    told = PermitGrant(account.bucket, START, 5, 2, contended=True)
    ask = account.ask(Wish(5, stopping=False), 0.0)
    assert (ask.kept, ask.wanted) == (5, 8)
    account.granted(told, ask, StoreTime(), 0.0)
    assert account.has_surplus
    ask = account.ask(Wish(5, stopping=False), 0.0)
    assert (ask.kept, ask.wanted) == (3, 8)
    assert account.ask(Wish(5, stopping=True), 0.0).wanted == 3


def test_permits_are_free_for_what_is_not_known_where_a_tenant_has_no_limits() -> None:
    world = World(ALL)
    assert (world.permits.is_free("acme"), world.permits.is_free("other")) == (False, True)
    world.known.change()
    assert world.permits.is_free("acme")

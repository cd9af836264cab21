"""Which second starts of what remote workers run are explained, and which are not. The lease is
2 s; the first call begins at 100 and the second one at 106."""

from typing import Any

import pytest
from proof.campaigns.checker import Judgement, Kind, judge
from proof.campaigns.faults import RABBITMQ, REDIS
from proof.campaigns.history import Call, Fault, Final, History, Route, Submitted

LEASE = 2.0
AT_FIRST = (Route("worker-1", "api-1", 0.0), Route("worker-2", "api-2", 0.0))


def fault(kind: str, victim: str, at: float, healed_at: float, *, struck: bool = True) -> Fault:
    return Fault(kind=kind, victim=victim, at=at, healed_at=healed_at, took_effect=struck)


def call(
    at: float, fence: int, node: str | None, ended_at: float | None = None, *, good: bool = True
) -> Call:
    return Call(
        n=1, run_id="a", attempt=1, fence=fence, began_at=at, ended_at=ended_at, succeeded=good,
        node=node,
    )  # fmt: skip


def judged(
    *faults: Fault,
    routes: tuple[Route, ...] = AT_FIRST,
    calls: tuple[Call, ...] = (call(100.0, 1, "worker-1"),),
    again_at: float = 106.0,
    gateways: tuple[str, ...] = (),
) -> Judgement:
    last = call(again_at, 9, "worker-2", again_at + 0.1)
    asked = Submitted(
        n=1, mode="at_least_once", way="function", asked_at=99.0, acked_at=99.1, task_id="a",
        due_at=99.0,
    )  # fmt: skip
    history = History(
        began_at=0.0, ended_at=200.0, lease=LEASE, submitted=[asked], calls=[*calls, last],
        faults=list(faults), finals=[Final(n=1, task_id="a", state=10, fence=9, attempt=2)],
        routes=list(routes), gateways=list(gateways),
    )  # fmt: skip
    return judge(history)


def starts(*faults: Fault, **besides: Any) -> tuple[int, int]:
    """How many starts are explained, and how many are not."""
    found = judged(*faults, **besides)
    return found[Kind.START_EXPLAINED].count, found[Kind.START_UNEXPLAINED].count


EXPLAINED, NOT = (1, 0), (0, 1)


@pytest.mark.parametrize("kind", ["kill", "crash_point"])
def test_the_death_of_a_worker_explains_what_it_ran_and_nobody_else(kind: str) -> None:
    assert starts(fault(kind, "worker-1", 100.5, 101.0)) == EXPLAINED
    assert starts(fault(kind, "worker-1", 100.5, 101.0, struck=False)) == NOT
    assert starts(fault(kind, "worker-2", 100.5, 101.0)) == NOT
    assert starts(fault(kind, "node-1", 100.5, 101.0)) == NOT
    # The process that was started after it has run the call, and still does.
    assert starts(fault(kind, "worker-1", 99.0, 99.5)) == NOT
    # The lease is not over yet.
    assert starts(fault(kind, "worker-1", 105.5, 106.0)) == NOT


def test_a_death_long_after_a_call_has_ended_explains_nothing() -> None:
    ended = (call(100.0, 1, "worker-1", 100.2),)
    late = fault("kill", "worker-1", 110.0, 111.0)
    assert starts(late, calls=ended, again_at=120.0) == NOT
    assert starts(fault("kill", "worker-1", 101.0, 102.0), calls=ended) == EXPLAINED
    # Its report could not be written meanwhile.
    without = fault("postgres_fast", "postgres", 104.0, 109.0)
    assert starts(without, late, calls=ended, again_at=120.0) == EXPLAINED


@pytest.mark.parametrize("kind", ["pause", "black_hole", "delay"])
def test_a_worker_that_is_not_heard_of_for_long_may_lose_its_session(kind: str) -> None:
    assert starts(fault(kind, "worker-1", 100.5, 103.5)) == EXPLAINED
    assert starts(fault(kind, "worker-2", 100.5, 103.5)) == NOT
    assert starts(fault(kind, "worker-1", 100.5, 101.1)) == NOT  # beats came before and after
    # It began with a lease that was renewed after the silence.
    assert starts(fault(kind, "worker-1", 96.0, 99.0)) == NOT


@pytest.mark.parametrize("kind", ["cut", "lost_answer"])
def test_what_idempotent_polls_are_for_explains_nothing(kind: str) -> None:
    for victim in ("worker-1", "api-1", "api-2"):
        assert starts(fault(kind, victim, 100.1, 104.0)) == NOT


@pytest.mark.parametrize("kind", ["kill", "crash_point", "pause", "black_hole"])
def test_a_gateway_explains_only_while_its_worker_is_led_to_it(kind: str) -> None:
    away = fault(kind, "api-1", 100.5, 103.5)
    assert starts(away) == EXPLAINED  # nobody led it away
    led_away = (*AT_FIRST, Route("worker-1", "api-2", 100.6))
    assert starts(away, routes=led_away) == NOT
    other = fault("kill", "api-2", 100.6, 103.5)
    assert starts(away, other, routes=led_away) == EXPLAINED  # to one that is away, too
    assert starts(other) == NOT
    assert starts(fault("delay", "api-1", 100.5, 103.5)) == NOT


def test_redis_explains_the_loss_of_sessions_behind_it_if_it_was_away_for_long() -> None:
    behind = (Route("worker-1", REDIS, 0.0), Route("worker-2", REDIS, 0.0))
    for kind in ("redis_kill", "redis_pause"):
        assert starts(fault(kind, REDIS, 100.5, 103.5), routes=behind) == EXPLAINED
        assert starts(fault(kind, REDIS, 100.5, 101.0), routes=behind) == NOT
        assert starts(fault(kind, REDIS, 100.5, 103.5)) == NOT  # it is not behind it
    for kind in ("redis_cut", "redis_full"):
        assert starts(fault(kind, REDIS, 100.5, 103.5), routes=behind) == NOT
    assert starts(fault("kill", "api-1", 100.5, 103.5), routes=behind) == NOT  # it finds another


@pytest.mark.parametrize("kind", ["kill", "crash_point", "pause", "black_hole"])
def test_behind_a_broker_a_gateway_explains_only_while_there_is_no_other(kind: str) -> None:
    """They find another one in time. A lease is 2 s, and was renewed up to 0.67 s before."""
    behind = (Route("worker-1", REDIS, 0.0), Route("worker-2", REDIS, 0.0))
    first = fault(kind, "api-1", 100.5, 103.5)
    second = fault("black_hole", "api-2", 102.0, 104.9)
    one, two = ("api-1",), ("api-1", "api-2")
    assert starts(first, routes=behind, gateways=one) == EXPLAINED
    assert starts(fault(kind, "api-1", 100.5, 101.8), routes=behind, gateways=one) == NOT
    assert starts(first, routes=behind, gateways=two) == NOT
    assert starts(first, second, routes=behind, gateways=two) == EXPLAINED  # for 1.5 s
    soon = fault("black_hole", "api-2", 102.3, 104.9)
    assert starts(first, soon, routes=behind, gateways=two) == NOT  # for 1.2 s
    after = fault("black_hole", "api-2", 103.5, 105.5)
    assert starts(first, after, routes=behind, gateways=two) == NOT
    assert starts(first, second, routes=behind, gateways=(*two, "api-3")) == NOT
    slow = fault("delay", "api-2", 100.5, 103.5)
    assert starts(first, slow, routes=behind, gateways=two) == NOT
    found = judged(first, second, routes=behind, gateways=two)
    (why,) = (words for _, words in found[Kind.START_EXPLAINED].first)
    assert f"{kind} of api-1, black_hole of api-2 from 102.000 to 103.500" in why


def test_postgres_explains_nothing_but_makes_another_silence_longer() -> None:
    assert starts(fault("postgres_immediate", "postgres", 100.5, 103.5)) == NOT
    short = fault("black_hole", "worker-1", 101.2, 101.6)
    assert starts(short) == NOT
    assert starts(fault("postgres_fast", "postgres", 100.5, 101.0), short) == EXPLAINED


def test_a_webhook_is_not_repeated_because_of_a_worker_or_its_gateway() -> None:
    webhook = (call(100.0, 1, None),)
    for victim in ("worker-1", "api-1"):
        assert starts(fault("kill", victim, 100.5, 101.0), calls=webhook) == NOT
    assert starts(fault("kill", "node-1", 100.5, 101.0), calls=webhook) == EXPLAINED


def test_a_failure_that_had_its_retry_excuses_no_repeat_of_a_success() -> None:
    calls = (
        call(98.0, 1, "worker-1", 100.0, good=False),
        call(100.2, 3, "worker-2", 100.3),
    )
    assert starts(fault("kill", "worker-1", 100.1, 101.0), calls=calls) == NOT
    assert starts(fault("kill", "worker-2", 100.4, 101.0), calls=calls) == EXPLAINED


def test_each_repeated_start_is_counted_under_its_cause() -> None:
    behind = (Route("worker-1", RABBITMQ, 0.0),)
    broker = fault("rabbitmq_kill", RABBITMQ, 100.5, 104.0)
    without = fault("postgres_fast", "postgres", 104.2, 105.0)
    pause = fault("pause", "worker-1", 103.0, 105.5)
    assert judged(fault("kill", "worker-1", 100.5, 101.0)).causes == {"kill": 1}
    # PostgreSQL only made it longer.
    assert judged(broker, without, routes=behind).causes == {"rabbitmq_kill": 1}
    assert judged(broker, pause, routes=behind).causes == {"pause and rabbitmq_kill": 1}
    assert judged().causes == {}


def test_what_a_node_ran_is_explained_by_what_does_most_harm() -> None:
    of_node = (call(100.0, 1, None),)
    answer = fault("lost_answer", "node-1", 99.0, 99.5)
    stopped = fault("pause", "node-1", 100.5, 105.0)
    assert judged(answer, calls=of_node).causes == {"lost_answer": 1}
    assert judged(answer, stopped, calls=of_node).causes == {"pause": 1}

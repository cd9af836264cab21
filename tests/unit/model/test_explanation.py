"""`explain` answers in plain words what keeps a task from running."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from gnomon.clock import new_id
from gnomon.model.fleet.tenant import EXECUTIONS_PER_MINUTE
from gnomon.model.insight.circumstances import (
    COUNTED_AHEAD,
    Circumstances,
    FailingChore,
    LimitUse,
    OpenBreaker,
)
from gnomon.model.insight.explanation import PIPES, explain
from gnomon.model.targets.target import HttpTarget, PythonTarget
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import DeliveryMode, KeepPayload, Resolution, Task
from gnomon.settings import MeetingPlace

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(seconds=90)


def a_task(status: Status, **fields: Any) -> Task:
    task = Task(
        task_id=new_id(NOW), tenant_id="default", name=None, task_type="t", status=status,
        priority=Lane.MEDIUM, target=PythonTarget("f"), payload=None, tags=(), execute_at=NOW,
        expires_at=None, created_at=NOW, created_by=None, started_at=None, finished_at=None,
        attempt=0, next_retry_at=None, last_error=None, result=None, resolution=None,
        cancel_requested=False, cron_job_id=None, retry_of=None,
        delivery=DeliveryMode.AT_LEAST_ONCE, retry_policy=RetryPolicy(), timeout_seconds=30,
        idempotency_key=None, preemptible=False, queue=None, keep_payload=KeepPayload.ALWAYS,
        payload_kept=True,
    )  # fmt: skip
    return msgspec.structs.replace(task, **fields)


def around(**fields: Any) -> Circumstances:
    served: dict[str, Any] = {"server": "node-a", "server_alive_until": LATER, "due_at": NOW}
    return Circumstances(now=NOW, shard=7, **(served | fields))


@pytest.mark.parametrize(
    ("task", "circumstances", "words"),
    [
        (
            a_task(Status.SCHEDULED),
            around(due_at=LATER),
            "not due yet: it runs at 2026-03-01T12:01:30Z, in 1 min 30 s",
        ),
        (
            a_task(Status.FAILED, last_error="HTTP 503"),
            around(due_at=LATER),
            "last execution failed; it is retried",
        ),
        (a_task(Status.READY), around(server=None, server_alive_until=None), "no scheduler node"),
        (
            a_task(Status.READY),
            around(server_alive_until=NOW - timedelta(seconds=1)),
            "has not renewed its lease",
        ),
        (
            a_task(Status.READY, queue="slow"),
            around(server=None, server_alive_until=None, nodes=3),
            "in no node's pool",
        ),
        (
            a_task(Status.READY),
            around(limits=(LimitUse("mail", 5, None, 0.0, "acme", 5),)),
            "limiter 'mail' is at its limit of 5 for the key 'acme' (5 running)",
        ),
        (
            a_task(Status.READY),
            around(limits=(LimitUse("mail", None, 20, 60.0, "", 0, 20),)),
            "limiter 'mail' is at its limit of 20 starts in 60 s.",
        ),
        (
            a_task(Status.READY),
            around(limits=(LimitUse("mail", 5, 20, 60.0, "", 4, 19),)),
            "is about to start it",
        ),
        (
            a_task(Status.READY),
            around(limits=(LimitUse(EXECUTIONS_PER_MINUTE, None, 20, 60.0, "", 0, 20),)),
            "the quota 'executions_per_minute' is at its limit",
        ),
        (a_task(Status.READY), around(ahead=1), "1 is due before it"),
        (a_task(Status.READY), around(ahead=COUNTED_AHEAD), "at least 1000 are due"),
        (a_task(Status.READY), around(), "node-a is about to start it"),
        (a_task(Status.RUNNING), around(running_on="node-b"), "running on node-b"),
        (
            a_task(Status.RUNNING, cancel_requested=True),
            around(running_on="b"),
            "cancelling was asked for",
        ),
        (a_task(Status.PAUSED), around(), "resumed"),
        (a_task(Status.BLOCKED), around(), "waits for other tasks"),
        (a_task(Status.DEAD_LETTERED), around(), "not retried by itself"),
        (a_task(Status.DEAD_LETTERED, resolution=Resolution.ARCHIVED), around(), "was archived"),
        (a_task(Status.DEAD_LETTERED, resolution=Resolution.DISCARDED), around(), "was discarded"),
        (a_task(Status.COMPLETED), around(due_at=None), "has completed"),
    ],
)
def test_the_summary_names_the_reason(task: Task, circumstances: Circumstances, words: str) -> None:
    assert words in explain(task, circumstances).summary


def test_the_facts_hold_what_was_behind_it() -> None:
    task = a_task(Status.FAILED, attempt=2, last_error="HTTP 503", expires_at=LATER)
    facts = "\n".join(explain(task, around(due_at=LATER, run_until=LATER)).facts)
    for words in ("attempt 2", "HTTP 503", "must not start after", "shard 7, served by node-a"):
        assert words in facts


def test_what_may_give_way_and_what_did_is_told() -> None:
    error = "preempted by a CRITICAL task"
    task = a_task(Status.READY, attempt=1, preemptible=True, queue="mails", last_error=error)
    told = explain(task, around()).facts
    assert {"of queue 'mails'", f"may be {error}", f"last error: {error}"} <= set(told)
    over = a_task(Status.COMPLETED, attempt=1, preemptible=True)
    assert not any("preempted" in fact for fact in explain(over, around()).facts)


def test_a_queued_run_names_the_one_that_it_waits_for() -> None:
    active = UUID(int=7)
    circumstances = around(cron_job="nightly", active_run=active)
    explanation = explain(a_task(Status.BLOCKED), circumstances)
    assert "nightly" in explanation.summary
    assert str(active) in explanation.summary


CALLING = HttpTarget("https://shop.test/hook")


@pytest.mark.parametrize(
    ("node", "host", "target", "words"),
    [
        ("node-a", "shop.test:443", CALLING, "the breaker of host shop.test:443 is open on node-a"),
        (
            "node-a",
            None,
            CALLING,
            "the breaker of its tenant is open on node-a until 2026-03-01T12",
        ),
        ("node-a", None, PythonTarget("f"), "the breaker of its tenant is open"),
        ("node-b", None, CALLING, "node-a is about to start it"),
        ("node-a", "other.test:443", CALLING, "node-a is about to start it"),
        ("node-a", "shop.test:443", PythonTarget("f"), "node-a is about to start it"),
    ],
)
def test_a_breaker_is_the_reason_where_it_is_open_for_the_task_on_the_node_that_serves_it(
    node: str, host: str | None, target: HttpTarget | PythonTarget, words: str
) -> None:
    circumstances = around(breakers=(OpenBreaker(node, host, LATER),))
    assert words in explain(a_task(Status.READY, target=target), circumstances).summary


def test_redis_being_away_is_the_reason_where_remote_workers_would_run_it() -> None:
    away = (FailingChore("redis-pipe", "API a:1", NOW),)
    task = a_task(Status.READY, target=PythonTarget("f"))
    words = "the Redis that remote workers are reached through has not answered API a:1"
    gateway = around(failing=away, by_session=True)
    assert words in explain(task, gateway).summary
    assert "see to that broker" in explain(task, gateway).remedies[0]
    nobody = around(failing=away, server=None, server_alive_until=None, nodes=1)
    assert words in explain(task, nobody).summary
    assert words not in explain(task, around(failing=away)).summary, "a node runs it itself"
    webhook = a_task(Status.READY, target=HttpTarget("https://example.com/"))
    assert words not in explain(webhook, gateway).summary


def test_a_task_that_was_set_aside_says_why() -> None:
    task = a_task(Status.READY)
    about = FailingChore("claims", "node-a", NOW, f"task {task.task_id}", "it cannot be read")
    assert "set aside: it cannot be read" in explain(task, around(failing=(about,))).summary
    other = a_task(Status.READY)
    assert "about to start it" in explain(other, around(failing=(about,))).summary


@pytest.mark.parametrize(
    ("task", "circumstances", "held_by", "remedy"),
    [
        (
            a_task(Status.READY),
            around(limits=(LimitUse("bank", 2, None, 1.0, "", 2),)),
            [("limiter", "bank")],
            "raise its limit",
        ),
        (
            a_task(Status.READY),
            around(limits=(LimitUse(EXECUTIONS_PER_MINUTE, None, 5, 60.0, "", 0, 5),)),
            [("quota", EXECUTIONS_PER_MINUTE)],
            "a larger quota",
        ),
        (
            a_task(Status.READY, target=HttpTarget("http://shop:9/")),
            around(breakers=(OpenBreaker("a", "shop:9", LATER), OpenBreaker("b", "shop:9", LATER))),
            [("breaker", "shop:9")],
            "mend shop:9",
        ),
        (
            a_task(Status.SCHEDULED),
            around(nodes=1, handled=frozenset({"other"})),
            [("handler", "t")],
            "gnomon worker",
        ),
        (
            a_task(Status.READY),
            around(server_alive_until=NOW - timedelta(seconds=1)),
            [("node", "node-a")],
            "takes over",
        ),
        (
            a_task(Status.BLOCKED),
            around(active_run=UUID(int=7)),
            [("task", str(UUID(int=7)))],
            "cancel it",
        ),
        (a_task(Status.READY), around(), [], "add nodes"),
        (a_task(Status.RUNNING), around(limits=(LimitUse("b", 1, None, 1, "", 1),)), [], "to end"),
        (a_task(Status.PAUSED), around(), [], "resume it"),
    ],
)
def test_what_holds_a_task_up_and_what_would_help(
    task: Task, circumstances: Circumstances, held_by: list[tuple[str, str]], remedy: str
) -> None:
    found = explain(task, circumstances)
    assert [(each.kind, each.name) for each in found.held_by] == held_by
    assert any(remedy in each for each in found.remedies)


def test_every_broker_has_a_name_in_explanations() -> None:
    assert {place.chore: place.label for place in MeetingPlace} == PIPES

"""Traces from a submitter's span to the receiver's, read back from the exporter."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.trace import TracerProvider
from tests.collector import Collector, Received, collecting
from tests.conftest import serving
from tests.integration.api_calls import LATER as LATER_BODY
from tests.integration.api_calls import TASKS, call, submitted
from tests.integration.nodes import Receiver, answers, call_of, receiver_on, running_node, webhook
from tests.integration.support import Connection, database_now, end_of, key_of, store
from tests.unit.model.test_origin import PARENT, SPAN, TRACE
from tests.waiting import eventually

from gnomon.client.client import Client
from gnomon.client.types.tasks import TaskInfo, TaskSpec
from gnomon.clock import new_id
from gnomon.model.targets.target import HttpTarget
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import DEFAULT_TENANT, TaskKey
from gnomon.observe.events import Event, SpanResult, SpansEnded
from gnomon.store.postgres.database import Database

PRODUCER, CLIENT, CONSUMER = 4, 3, 5
# A retry that waits until it is hastened.
LATER = RetryPolicy(max_retries=1, base_seconds=3600.0, max_seconds=3600.0, jitter=False)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async def now() -> datetime:
        return datetime.now(UTC)

    async with receiver_on(now) as found:
        yield found


def traced(collector: Collector) -> dict[str, Any]:
    return {
        "tracing_exporter": "otlp",
        "tracing_endpoint": collector.url,
        "tracing_timeout_seconds": 2.0,
    }


async def arrived(collector: Collector, name: str, number: int = 1) -> list[Received]:
    async def look() -> list[Received] | None:
        found = collector.named(name)
        return found if len(found) >= number else None

    found = await eventually(look)
    assert found is not None
    return found


async def test_from_a_clients_span_to_the_receivers_across_a_retry_on_another_node(
    database_dsn: str, connection: Connection, collector: Collector, receiver: Receiver
) -> None:
    receiver.answer = answers(503, 200)
    async with serving(database_dsn, **traced(collector)) as api:
        with TracerProvider().get_tracer("a program").start_as_current_span("checkout") as span:
            async with Client(str(api._base_url)) as client:
                target = HttpTarget(f"{receiver.url}?token=secret")
                spec = TaskSpec(task_type="mail", target=target, retry_policy=LATER)
                task = await client.submit_task(spec)
                assert isinstance(task, TaskInfo)
            program = span.get_span_context()
        key = TaskKey(DEFAULT_TENANT, task.task_id)
        async with running_node(database_dsn, node_name="a", **traced(collector)):
            await arrived(collector, "process mail")
        async with running_node(database_dsn, node_name="b", **traced(collector)):
            await call(api, "POST", f"{TASKS}/{task.task_id}/retry", 202, {})
            row = await end_of(connection, key)
    assert (row["state"], row["attempt"], row["worker"]) == (State.COMPLETED, 2, "b")
    (sent,) = collector.named("send mail")
    first, second = collector.named("process mail")
    calls = collector.named("POST")
    assert {each.trace_id for each in (sent, first, second, *calls)} == {f"{program.trace_id:032x}"}
    assert task.trace_id == sent.trace_id
    assert (sent.kind, sent.parent_id) == (PRODUCER, f"{program.span_id:016x}")
    assert [each.kind for each in (first, second)] == [CONSUMER] * 2
    assert [each.parent_id for each in (first, second)] == [sent.span_id] * 2
    assert first.links == []
    assert second.links == [(first.trace_id, first.span_id, "execution_before")]
    assert [each.kind for each in calls] == [CLIENT] * 2
    assert [each.parent_id for each in calls] == [first.span_id, second.span_id]
    assert [each.headers["traceparent"] for each in receiver.calls] == [
        f"00-{each.trace_id}-{each.span_id}-01" for each in calls
    ]
    _about_the_failure(first, calls[0])
    assert not second.failed
    assert second.attributes["gnomon.outcome"] == "succeeded"
    assert second.attributes["gnomon.attempt"] == 2
    assert second.attributes["messaging.message.id"] == str(task.task_id)
    assert {each.service for each in collector.spans} == {"gnomon"}


def _about_the_failure(execution: Received, request: Received) -> None:
    for each in (execution, request):
        assert (each.failed, each.status) == (True, "failed")
        assert each.attributes["error.type"] == "HTTP 503"
    assert request.attributes["http.response.status_code"] == 503
    assert request.attributes["url.full"].endswith("token=***")


async def test_handlers_run_below_the_span_of_their_execution(
    database: Database, database_dsn: str, connection: Connection, collector: Collector
) -> None:
    """Also in threads and in processes, and in a trace of its own where they run later."""
    now = await database_now(connection)
    origin = Origin("order-7", PARENT, "a=1")
    news = {}
    for function in ("tell_its_span", "tell_its_span_in_a_thread", "tell_its_span_in_a_process"):
        _, new = call_of(now, function, task_type=function)
        news[function] = msgspec.structs.replace(new, origin=origin)
    _, late = call_of(now, "tell_its_span", task_type="late")
    earlier = new_id(now - timedelta(hours=1))
    news["late"] = msgspec.structs.replace(late, id=earlier, origin=origin)
    await store(database, *news.values())
    told = {}
    async with running_node(database_dsn, **traced(collector)):
        for name, new in news.items():
            row = await end_of(connection, key_of(new))
            assert row["state"] == State.COMPLETED, row["last_error"]
            told[name] = msgspec.json.decode(row["result"])
    for name, (trace_id, span_id, correlation_id) in told.items():
        (span,) = collector.named(f"process {name}")
        assert (trace_id, span_id, correlation_id) == (span.trace_id, span.span_id, "order-7")
        assert span.attributes["messaging.message.conversation_id"] == "order-7"
        if name == "late":
            assert (span.parent_id, span.links) == ("", [(TRACE, SPAN, "submission")])
            assert span.trace_id != TRACE
        else:
            assert (span.trace_id, span.parent_id, span.links) == (TRACE, SPAN, [])
            assert span.state == "a=1"


async def test_without_tracing_the_submitters_trace_is_passed_on(
    database: Database, database_dsn: str, connection: Connection, receiver: Receiver
) -> None:
    now = await database_now(connection)
    given = msgspec.structs.replace(
        webhook(now, receiver), origin=Origin("order-7", PARENT, "a=1,b=2")
    )
    _, handled = call_of(now, "tell_its_span")
    handled = msgspec.structs.replace(handled, origin=Origin(traceparent=PARENT))
    await store(database, given, handled)
    async with running_node(database_dsn):
        await end_of(connection, key_of(given))
        row = await end_of(connection, key_of(handled))
    headers = receiver.calls[0].headers
    assert headers["x-request-id"] == "order-7"
    assert (headers["traceparent"], headers["tracestate"]) == (PARENT, "a=1,b=2")
    assert msgspec.json.decode(row["result"]) == [TRACE, SPAN, str(handled.id)]


async def test_a_ratio_of_submissions_begins_a_trace_unless_their_maker_decided_otherwise(
    database_dsn: str, collector: Collector
) -> None:
    async with serving(database_dsn, tracing_ratio=1.0, **traced(collector)) as api:
        task = await submitted(api)
        unsampled = {"traceparent": PARENT.removesuffix("01") + "00"}
        async with api.post(TASKS, json=LATER_BODY, headers=unsampled) as answer:
            assert (await answer.json())["trace_id"] is None
        batch = {"tasks": [LATER_BODY, LATER_BODY]}
        made = await call(api, "POST", f"{TASKS}/batch", 202, batch)
        of_batch = [await call(api, "GET", f"{TASKS}/{t['task_id']}", 200) for t in made["tasks"]]
        async with api.post(TASKS, json={"task_type": "mail", "wrong": 1}) as answer:
            assert answer.status == 422
        await call(
            api, "POST", TASKS, 422, {"task_type": "mail", "delay_seconds": 1, "tags": ["\n"]}
        )
        async with api.get("/metrics") as answer:
            assert "gnomon_spans_total" in await answer.text()
    (sent, refused), (batched,) = collector.named("send mail"), collector.named("send")
    assert task["trace_id"] == sent.trace_id
    assert {each["trace_id"] for each in of_batch} == {batched.trace_id}
    assert (refused.failed, refused.attributes["error.type"]) == (True, "InvalidTask")


async def test_a_collector_that_is_silent_holds_nothing_up(
    database: Database, database_dsn: str, connection: Connection, collector: Collector
) -> None:
    collector.silent = True
    now = await database_now(connection)
    _, new = call_of(now, "echo")
    new = msgspec.structs.replace(new, origin=Origin(traceparent=PARENT))
    await store(database, new)
    events: list[Event] = []
    settings = traced(collector) | {"tracing_timeout_seconds": 0.2}
    async with running_node(database_dsn, listeners=[events.append], **settings):
        assert (await end_of(connection, key_of(new)))["state"] == State.COMPLETED
        # Ends within its bound, whatever the collector does.
    assert SpanResult.EXPORTED not in {e.result for e in events if isinstance(e, SpansEnded)}

"""Deliveries that a remote worker holds, and reports that it keeps."""

import json
from uuid import UUID, uuid4

import msgspec
import pytest

from gnomon.model.outcomes.outcome import SUCCESS, Loss, Outcome, OutcomeKind
from gnomon.model.tasks.task import DeliveryMode, TaskKey
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.remote.wording import outcome_of
from gnomon.pipe.envelope import Delivery, Report
from gnomon.pipe.http.messages import (
    MOST_REPORTS,
    DeliveredTask,
    ReportReceipt,
    SessionOpened,
    WorkerReport,
)
from gnomon.pipe.http.session import RemoteExecution
from gnomon.remote.held import MOST_REPORT_BYTES, HeldDeliveries
from gnomon.remote.messages import claim_of, delivery_of, report_of
from gnomon.sdk.app import Gnomon
from gnomon.sdk.errors import CannotSpawn
from gnomon.sdk.executing.context import TaskContext
from gnomon.workflow.spawning import spawned_id

app = Gnomon()

SESSION = SessionOpened(
    session_id=uuid4(), secret="s", tenant_id="acme", lease_seconds=30, beat_seconds=6,
    poll_seconds=20, epoch="1",
)  # fmt: skip


@app.task(jitter="1s")
async def crawl(ctx: TaskContext, page: str) -> None:
    """A page."""


def delivered(fence: int = 1, task_id: UUID | None = None, **fields: object) -> DeliveredTask:
    plain = {
        "task_id": str(task_id or uuid4()), "fence": fence, "tenant_id": "acme",
        "task_type": "mail", "function": "mail", "attempt": 1, "retries_left": 3,
        "payload": {"to": "ada"}, "timeout_seconds": 30, "start_within_seconds": 5,
        "asks": False, "delivery": "at_least_once", "priority": "HIGH", "queue": None,
        "idempotency_key": None, "correlation_id": "c-1", "recurring": False, "suspect": False,
        "scheduled_for": "2026-01-01T00:00:00Z", "something": "of a newer gateway", **fields,
    }  # fmt: skip
    return msgspec.json.decode(msgspec.json.encode(plain), type=DeliveredTask)


def delivery(fence: int = 1, task_id: UUID | None = None, **fields: object) -> Delivery:
    return delivery_of(delivered(fence, task_id, **fields), SESSION, now=100.0)


@pytest.fixture
def tasks() -> HeldTasks:
    return HeldTasks(SuspectRoom(1, 10))


@pytest.fixture
def held(tasks: HeldTasks) -> HeldDeliveries:
    return HeldDeliveries(tasks)


def receipt(each: Delivery, *, accepted: bool = True) -> ReportReceipt:
    return ReportReceipt(each.key.id, each.fence, accepted)


def test_what_is_reported_keeps_no_payload(held: HeldDeliveries) -> None:
    one, other = delivery(payload={"to": "x" * 10_000}), delivery(payload=None)
    held.take([one, other])
    assert held.not_reported(claim_of(one)) is one
    assert held.unreported == 2
    held.reported([Report(one, SUCCESS, 1.0, 2.0), Report(other)])
    assert held.not_reported(claim_of(one)) is None
    assert held.unreported == 0
    settled = held.acknowledged([receipt(one), receipt(other)]).reports
    bare = msgspec.structs.replace(one, payload=None)
    assert settled == [Report(bare, SUCCESS, 1.0, 2.0), Report(other)]


def test_a_delivery_is_held_until_its_report_is_acknowledged(
    held: HeldDeliveries, tasks: HeldTasks
) -> None:
    one = delivery()
    assert held.take([one, one]) == [one]
    assert held.take([one]) == [], "an answer that says it again"
    assert held.acknowledged([receipt(one)]).reports == [], "which nobody has reported"
    held.reported([Report(one, SUCCESS, 1.0, 2.0)])
    assert held.claims() == (claim_of(one),)
    assert held.to_send() == held.to_send() != []
    settled = held.acknowledged([receipt(one)])
    assert [claim_of(report.delivery) for report in settled.reports] == [claim_of(one)]
    assert (settled.refused, held.claims(), held.to_send(), tasks.fences) == ([], (), [], {})


def test_a_report_is_sent_until_the_gateway_has_heard_it(held: HeldDeliveries) -> None:
    first, second, third = (delivery() for _ in range(3))
    held.take([first, second, third])
    held.reported([Report(first), Report(second)])
    sent = held.to_send()
    held.reported([Report(third)])
    held.heard(len(sent))
    assert _ids(held.to_send()) == [third.key.id], "it may be heard, and not written yet"
    assert (len(held.claims()), held.has_reports) == (3, True)
    held.say_again(claim_of(first))
    assert _ids(held.to_send()) == [third.key.id, first.key.id]
    held.acknowledged([receipt(third)])
    held.heard(len(held.to_send()))
    held.say_all_again()
    assert _ids(held.to_send()) == [first.key.id, second.key.id], "to another gateway"


def _ids(messages: list[msgspec.Raw]) -> list[UUID]:
    return [msgspec.json.decode(each, type=WorkerReport).task_id for each in messages]


def test_a_later_claim_of_the_same_task_is_another(held: HeldDeliveries, tasks: HeldTasks) -> None:
    old = delivery(1)
    new = delivery(3, old.key.id)
    held.take([old])
    held.take([new])
    held.reported([Report(old, SUCCESS, 1.0, 2.0)])
    settled = held.acknowledged([receipt(old, accepted=False)])
    assert [claim_of(report.delivery) for report in settled.refused] == [claim_of(old)]
    assert (held.claims(), tasks.fences) == ((claim_of(new),), {new.key: 3})


def test_a_poll_takes_the_oldest_reports_that_fit(held: HeldDeliveries) -> None:
    many = [delivery() for _ in range(MOST_REPORTS + 5)]
    held.take(many)
    held.reported(Report(each) for each in many)
    sent = [msgspec.json.decode(each, type=WorkerReport).task_id for each in held.to_send()]
    assert sent == [each.key.id for each in many[:MOST_REPORTS]]
    held.acknowledged([receipt(each) for each in many])
    large = Outcome(OutcomeKind.FAILED, error="x" * (MOST_REPORT_BYTES // 2))
    held.take(many[:4])
    held.reported(Report(each, large, 1.0, 2.0) for each in many[:4])
    assert len(held.to_send()) == 1


def test_what_a_delivery_says_reaches_the_handler() -> None:
    one = delivery(7, correlation_id="order-1", traceparent=None)
    assert one.key == TaskKey("acme", one.key.id)
    assert (one.payload, one.start_by, one.lane.name) == (b'{"to":"ada"}', 105.0, "HIGH")
    assert (one.correlation_id, one.asks, one.incarnation) == (
        "order-1",
        False,
        SESSION.session_id,
    )
    assert delivery(payload=None).payload is None
    assert delivery(suspect=True, asks=True).losses == 1
    assert delivery(asks=True).asks
    assert delivery(asks=True, delivery="at_most_once").mode is DeliveryMode.AT_MOST_ONCE
    assert delivery(delivery="of_a_newer_gateway", priority="NEW").asks


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (None, "released"),
        (SUCCESS, "succeeded"),
        (Outcome(OutcomeKind.PREEMPTED), "cancelled"),
        (Outcome(OutcomeKind.SNOOZED, retry_after=3), "snoozed"),
        (Outcome(OutcomeKind.LOST, loss=Loss.ALONE), "failed"),
        (Outcome(OutcomeKind.LOST, loss=Loss.NODE), "cancelled"),
    ],
)
def test_every_outcome_has_a_name_in_the_protocol(outcome: Outcome | None, told: str) -> None:
    assert report_of(Report(delivery(), outcome, 1.0, 2.0)).outcome == told


def test_a_node_of_a_run_is_told_so_and_what_it_spawns_is_reported() -> None:
    node = delivery(workflow_node="crawl")
    context = TaskContext(node)
    ids = [context.spawn(crawl, page) for page in ("/a", "/b")]
    assert ids == [spawned_id(node.key.id, number) for number in range(2)]
    outcome = Outcome(OutcomeKind.SUCCEEDED, spawns=context.spawns)
    message = msgspec.json.encode(report_of(Report(node, outcome, 1.0, 2.0)))
    read = msgspec.json.decode(message, type=WorkerReport)
    spawned = [msgspec.json.decode(each) for each in read.spawns]
    assert not any("jitter_seconds" in each for each in spawned), "it is not for nodes"
    assert [(each["task_type"], each["payload"]) for each in spawned] == [
        ("crawl", {"page": "/a"}),
        ("crawl", {"page": "/b"}),
    ]
    found = outcome_of(read, RemoteExecution(node, 1.0, gives_way=False))
    assert found is not None
    assert json.loads(found.spawns or "") == spawned
    with pytest.raises(CannotSpawn, match="only a task of a workflow run"):
        TaskContext(delivery()).spawn(crawl, "/")

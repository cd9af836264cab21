"""gRPC calls, of a real server: messages, metadata, deadlines, statuses, addresses."""

import asyncio
import importlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import grpc
import msgspec
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from tests.grpc_servers import (
    RECEIVE,
    GrpcServer,
    grpc_server,
    in_base64,
    receiver_set,
    shop_set,
)
from tests.unit.node.test_http_guard import names

from gnomon.access.addresses import AddressGuard
from gnomon.clock import SystemClock
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.targets.grpc_target import GrpcTarget
from gnomon.model.tasks.origin import Origin, TraceContext
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import DeliveryMode
from gnomon.node.run.resolver import Resolver
from gnomon.node.run.targets.extra import ClosableCaller, ExtraCaller
from gnomon.node.run.targets.grpc.caller import GrpcCaller
from gnomon.node.run.targets.grpc.messages import _RECEIVER_FILE
from gnomon.sdk.executing.context import TaskContext
from gnomon.settings.targets import TargetSettings
from gnomon.testing.contracts.pipe import a_delivery

TRACE = TraceContext("1" * 32, "2" * 16)
ORDER = (
    b'{"order_id": "o_1", "cents": 1250, "items": ["a", "b"], "paid_at": "2030-01-31T12:00:00Z"}'
)


@pytest.fixture
async def server() -> AsyncIterator[GrpcServer]:
    async with grpc_server() as started:
        yield started


@asynccontextmanager
async def calling(
    guard: AddressGuard | None = None, found: Resolver | None = None
) -> AsyncIterator[GrpcCaller]:
    resolver = found or Resolver(SystemClock())
    caller = GrpcCaller(SystemClock(), resolver, lambda _: guard, TargetSettings())
    try:
        yield caller
    finally:
        await caller.close()
        await resolver.close()


async def called(
    caller: Any, target: GrpcTarget, payload: bytes | None = ORDER, **values: Any
) -> Outcome:
    seconds = values.pop("seconds", 10.0)
    delivery = msgspec.structs.replace(a_delivery(7), target=target, **values)
    run = TaskContext(delivery)
    clock = SystemClock()
    run.begin(clock.seconds() + seconds, clock.seconds)
    if (waiting := caller.ready(delivery)) is not None:
        await waiting
    outcome: Outcome | None = await caller.call(delivery, payload, run)
    assert outcome is not None
    return outcome


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_a_method_is_found_by_reflection_and_called_with_the_payload(version: str) -> None:
    async with grpc_server(reflection=version) as server, calling() as caller:
        outcome = await called(caller, GrpcTarget(server.url()))
        assert outcome == Outcome(
            OutcomeKind.SUCCEEDED,
            response_status=0,
            response_body='{"order_id": "o_1", "parcels": "2"}',
        )
        assert (server.calls[0].cents, list(server.calls[0].items)) == (1250, ["a", "b"])
        assert server.calls[0].paid_at.ToDatetime(UTC) == datetime(2030, 1, 31, 12, tzinfo=UTC)


async def test_a_descriptor_set_needs_no_reflection() -> None:
    async with grpc_server(reflection=None) as server, calling() as caller:
        without = await called(caller, GrpcTarget(server.url()))
        assert "the server has no reflection; give the target a descriptor_set" in (
            without.error or ""
        )
        assert not without.retryable
        given = GrpcTarget(server.url(), descriptor_set=in_base64(shop_set()))
        assert (await called(caller, given)).kind is OutcomeKind.SUCCEEDED


async def test_the_receiver_is_told_of_the_task_and_needs_neither() -> None:
    async with grpc_server(reflection=None) as server, calling() as caller:
        target = GrpcTarget(server.url(RECEIVE))
        outcome = await called(caller, target, b'{"n": 9007199254740993}', fence=5, attempt=3)
    assert outcome.response_body == '{"result": "done"}'
    (task,) = server.calls
    assert json.loads(task.payload) == {"n": 9007199254740993}, "to the letter"
    assert (task.fence, task.attempt, task.task_type, task.tenant) == (5, 3, "t", "tenant")
    assert task.task_id == task.idempotency_key == "00000000-0000-0000-0000-000000000007"


def test_the_compiled_receiver_is_that_of_the_proto() -> None:
    assert _RECEIVER_FILE.read_bytes() == receiver_set()


async def test_metadata_has_the_headers_of_a_webhook(server: GrpcServer) -> None:
    origin = Origin("order-7", TRACE.header)
    target = GrpcTarget(server.url(), {"Authorization": "Bearer of the test"})
    async with calling() as caller:
        await called(caller, target, idempotency_key="ключ", origin=origin, task_type="ship it")
    (metadata,) = server.metadata
    assert metadata["authorization"] == "Bearer of the test"
    assert metadata["webhook-id"] == metadata["gnomon-task-id"]
    assert metadata["idempotency-key"] == "%D0%BA%D0%BB%D1%8E%D1%87"
    assert (metadata["gnomon-attempt"], metadata["gnomon-fence"]) == ("1", "1")
    assert metadata["gnomon-task-type"] == "ship%20it"
    assert metadata["gnomon-tenant"] == "tenant"
    assert metadata["traceparent"] == TRACE.header
    assert metadata["x-request-id"] == "order-7"
    assert metadata["user-agent"].startswith("gnomon/")


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (b'{"colour": "blue"}', 'Message type "shop.Order" has no field named "colour"'),
        (b'{"cents": "a lot"}', "the field cents has another type"),
        (b"[1]", "it must be an object"),
        (b'"secret-text"', "it must be an object"),
    ],
)
async def test_a_wrong_payload_is_not_sent_and_not_told(
    server: GrpcServer, payload: bytes, told: str
) -> None:
    async with calling() as caller:
        outcome = await called(caller, GrpcTarget(server.url()), payload)
    assert (outcome.error or "").startswith("the payload is not a shop.Order: ")
    assert told in (outcome.error or "")
    assert "secret-text" not in (outcome.error or "")
    assert "a lot" not in (outcome.error or "")
    assert (outcome.retryable, outcome.uncalled) == (False, True)
    assert not server.calls


async def test_no_payload_is_an_empty_message(server: GrpcServer) -> None:
    async with calling() as caller:
        outcome = await called(caller, GrpcTarget(server.url()), None)
    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert not server.calls[0].order_id


@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("shop.Orders/Sink", "shop.Orders has no method Sink; it has: Follow, Ship"),
        ("shop.Order/Ship", "there is no service shop.Order"),
        ("shop.Nothing/Ship", "the server knows no service shop.Nothing"),
        ("shop.Orders/Follow", "shop.Orders/Follow streams, and only unary methods can be called"),
    ],
)
async def test_a_method_that_is_not_there_is_said_once(
    server: GrpcServer, method: str, told: str
) -> None:
    async with calling() as caller:
        outcome = await called(caller, GrpcTarget(server.url(method)))
    assert outcome.error == f"it cannot be called: {told}"
    assert not outcome.retryable
    assert outcome.uncalled, "no breaker counts it"


CODES = {
    "UNAVAILABLE": True, "RESOURCE_EXHAUSTED": True, "INTERNAL": True, "UNKNOWN": True,
    "ABORTED": True, "CANCELLED": True, "INVALID_ARGUMENT": False, "NOT_FOUND": False,
    "ALREADY_EXISTS": False, "PERMISSION_DENIED": False, "FAILED_PRECONDITION": False,
    "OUT_OF_RANGE": False, "UNIMPLEMENTED": False, "UNAUTHENTICATED": False, "DATA_LOSS": False,
}  # fmt: skip


async def test_statuses_say_what_is_tried_again(server: GrpcServer) -> None:
    async with calling() as caller:
        for name, retryable in CODES.items():
            code = grpc.StatusCode[name]

            async def fail(_: Any, context: Any, __: Any, code: Any = code) -> None:
                await context.abort(code, "for this reason")

            server.answer = fail
            target = GrpcTarget(server.url())
            outcome = await called(caller, target)
            assert outcome.error == f"gRPC {name}: for this reason"
            assert outcome.response_status == code.value[0]
            assert outcome.retryable is retryable, name
            stubborn = RetryPolicy(retry_client_errors=True)
            assert (await called(caller, target, retry_policy=stubborn)).retryable


async def test_a_server_that_breaks_is_tried_again(server: GrpcServer) -> None:
    async def broken(*_: Any) -> None:
        raise ZeroDivisionError

    server.answer = broken
    async with calling() as caller:
        outcome = await called(caller, GrpcTarget(server.url()))
    assert (outcome.kind, outcome.retryable, outcome.unreachable) == (
        OutcomeKind.FAILED,
        True,
        True,
    )


async def test_the_deadline_is_what_is_left_of_the_task(server: GrpcServer) -> None:
    left: list[float] = []

    async def slow(_: Any, context: Any, __: Any) -> None:
        left.append(context.time_remaining())
        await asyncio.Event().wait()

    server.answer = slow
    async with calling() as caller:
        outcome = await called(caller, GrpcTarget(server.url()), seconds=0.3)
    assert outcome.kind is OutcomeKind.TIMED_OUT
    assert "DEADLINE_EXCEEDED" in (outcome.error or "")
    assert 0 < left[0] <= 0.3


async def test_retry_info_and_retry_after_are_kept_to(server: GrpcServer) -> None:
    detail = any_pb2.Any()
    info = error_details_pb2.RetryInfo()
    info.retry_delay.FromMilliseconds(2500)
    detail.Pack(info)
    status = status_pb2.Status(code=14, message="later", details=[detail]).SerializeToString()
    seen = []
    async with calling() as caller:
        for trailers in (
            (("grpc-status-details-bin", status),),
            (("retry-after", "7"),),
            (("grpc-status-details-bin", b"\xff\xff"), ("retry-after", "8")),
        ):

            async def later(_: Any, context: Any, __: Any, trailers: Any = trailers) -> None:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "later", trailers)

            server.answer = later
            seen.append((await called(caller, GrpcTarget(server.url()))).retry_after)
    assert seen == [2.5, 7.0, 8.0]


async def test_a_snooze_is_no_failure_unless_it_may_never_be_called_again(
    server: GrpcServer,
) -> None:
    async def snooze(_: Any, context: Any, __: Any) -> None:
        await context.abort(grpc.StatusCode.UNAVAILABLE, "", (("gnomon-snooze", "30"),))

    server.answer = snooze
    async with calling() as caller:
        outcome = await called(caller, GrpcTarget(server.url()))
        once = await called(caller, GrpcTarget(server.url()), mode=DeliveryMode.AT_MOST_ONCE)
    assert (outcome.kind, outcome.retry_after) == (OutcomeKind.SNOOZED, 30.0)
    assert "never" in (once.error or "")


async def test_a_server_that_is_away_and_comes_back(server: GrpcServer) -> None:
    async with calling() as caller:
        again = GrpcServer()
        async with grpc_server(again):
            assert (await called(caller, GrpcTarget(again.url()))).error is None
        gone = await called(caller, GrpcTarget(again.url()))
        assert (gone.kind, gone.retryable, gone.unreachable) == (OutcomeKind.FAILED, True, True)
        assert (gone.error or "").startswith("gRPC UNAVAILABLE")
        async with grpc_server(again):
            for _ in range(100):  # its channel waits up to a second between connections
                outcome = await called(caller, GrpcTarget(again.url()))
                if outcome.error is None:
                    break
                await asyncio.sleep(0.05)
            assert outcome.error is None


async def test_a_server_that_dies_in_the_middle_of_a_call(server: GrpcServer) -> None:
    asked = asyncio.Event()

    async def hang(*_: Any) -> None:
        asked.set()
        await asyncio.Event().wait()

    dying = GrpcServer()
    dying.answer = hang
    async with calling() as caller:
        async with grpc_server(dying):
            call = asyncio.create_task(called(caller, GrpcTarget(dying.url())))
            await asked.wait()
        outcome = await call
    assert (outcome.kind, outcome.retryable, outcome.unreachable) == (
        OutcomeKind.FAILED,
        True,
        True,
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"])
async def test_an_address_that_is_not_public_is_not_called(server: GrpcServer, host: str) -> None:
    async with calling(AddressGuard()) as caller:
        outcome = await called(caller, GrpcTarget(server.url(host=host)))
    assert "its address is not public" in (outcome.error or "")
    assert (outcome.retryable, outcome.uncalled) == (False, True)
    assert not server.metadata


async def test_a_name_is_connected_to_where_the_guard_was_asked_for() -> None:
    async with grpc_server(host="0.0.0.0") as server:
        guard, target = AddressGuard(["127.0.0.2/32"]), GrpcTarget(server.url(host="shop.example"))
        async with calling(guard, names(["127.0.0.1", "127.0.0.2"])) as caller:
            assert (await called(caller, target)).kind is OutcomeKind.SUCCEEDED
        async with calling(guard, names(["127.0.0.1", "10.0.0.1"])) as caller:
            refused = await called(caller, target)
        assert "shop.example: its address is not public" in (refused.error or "")
        assert len(server.calls) == 1


async def test_a_name_that_leads_nowhere() -> None:
    async with calling(None, names([])) as caller:
        outcome = await called(caller, GrpcTarget("grpc://nowhere.example:1/a.B/C"))
    assert (outcome.unreachable, outcome.retryable) == (True, True)
    assert "nowhere.example" in (outcome.error or "")


async def test_where_the_extra_is_not_installed_the_task_says_so(server: GrpcServer) -> None:
    def importing() -> Any:
        importlib.import_module("no_such_module_grpc")

    async with ExtraCaller("grpc", importing, 10) as caller:
        for _ in range(2):
            outcome = await called(caller, GrpcTarget(server.url()))
            assert outcome.error == (
                "no_such_module_grpc is not installed on this node: "
                "pip install 'gnomon[server,grpc]'"
            )
            assert (outcome.retryable, outcome.uncalled) == (True, True)


async def test_the_caller_is_made_by_the_first_call(server: GrpcServer) -> None:
    made: list[GrpcCaller] = []

    def make() -> ClosableCaller:
        made.append(
            GrpcCaller(SystemClock(), Resolver(SystemClock()), lambda _: None, TargetSettings())
        )
        return made[-1]

    async with ExtraCaller("grpc", lambda: make, 10) as caller:
        assert not made
        for _ in range(2):
            assert (await called(caller, GrpcTarget(server.url()))).error is None
    assert len(made) == 1

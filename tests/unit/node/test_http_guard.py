"""Webhooks at addresses that are not public: refused when they are submitted, and when they are
called, by the very address that would be connected to."""

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gnomon.access.addresses import AddressGuard
from gnomon.clock import SystemClock
from gnomon.model.errors import InvalidTask
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.targets.target import HttpTarget
from gnomon.model.tasks.task import TaskKey
from gnomon.node.run.resolver import Found, Resolver
from gnomon.node.run.targets.http import HttpCaller
from gnomon.sdk.executing.context import TaskContext
from gnomon.testing.contracts.pipe import a_delivery
from gnomon.usecases.checks.target_check import check_target
from gnomon.usecases.cron.cron_requests import PatchCronJob, PutCronJob
from gnomon.usecases.tasks.task_requests import PatchTask, SubmitTask


def names(answer: Sequence[str]) -> Resolver:
    """Any name leads there."""

    def look_up(_: str) -> list[Found]:
        return [Found(socket.AF_INET, 0, each) for each in answer]

    return Resolver(SystemClock(), look_up)


class Inside:
    """A server on loopback, which nobody outside should reach."""

    def __init__(self) -> None:
        self.calls = 0
        self.port = 0

    async def answer(self, _: web.Request) -> web.Response:
        self.calls += 1
        # No connection is kept: every call looks its host up.
        return web.Response(text="secrets", headers={"connection": "close"})

    async def called(self, caller: HttpCaller, host: str) -> Outcome:
        target = HttpTarget(f"http://{host}:{self.port}/")
        delivery = msgspec.structs.replace(a_delivery(1), target=target)
        outcome = await caller.call(delivery, b"{}", TaskContext(delivery))
        assert outcome is not None
        return outcome


@pytest.fixture
async def inside() -> AsyncIterator[Inside]:
    made = Inside()
    app = web.Application()
    app.router.add_route("*", "/", made.answer)
    async with TestServer(app, host="0.0.0.0") as server:  # also 127.0.0.2
        assert server.port is not None
        made.port = server.port
        yield made


@asynccontextmanager
async def calling(
    guard: AddressGuard | None, found: Resolver | None = None
) -> AsyncIterator[HttpCaller]:
    async with HttpCaller(SystemClock(), None, 10, lambda _: guard, found) as caller:
        yield caller


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"])
async def test_a_loopback_address_is_not_called_and_not_tried_again(
    inside: Inside, host: str
) -> None:
    async with calling(AddressGuard()) as caller:
        outcome = await inside.called(caller, host)
    assert outcome.kind is OutcomeKind.FAILED
    assert not outcome.retryable
    assert not outcome.unreachable, "no fault of the host"
    assert "not public" in (outcome.error or "")
    assert inside.calls == 0


async def test_without_a_guard_it_is_called(inside: Inside) -> None:
    async with calling(None) as caller:
        assert (await inside.called(caller, "127.0.0.1")).kind is OutcomeKind.SUCCEEDED


async def test_a_name_that_leads_inside_is_not_called(inside: Inside) -> None:
    async with calling(AddressGuard(), names(["10.0.0.1", "127.0.0.1"])) as caller:
        outcome = await inside.called(caller, "harmless.example")
    assert not outcome.retryable
    assert "harmless.example: its address is not public" in (outcome.error or "")
    assert inside.calls == 0


async def test_a_name_that_changes_its_address_after_it_was_looked_at(inside: Inside) -> None:
    guard = AddressGuard(["127.0.0.2/32"])
    async with calling(guard, names(["127.0.0.2"])) as caller:
        assert (await inside.called(caller, "rebound.example")).kind is OutcomeKind.SUCCEEDED
    async with calling(guard, names(["127.0.0.1"])) as caller:
        assert not (await inside.called(caller, "rebound.example")).retryable
    assert inside.calls == 1


async def test_of_several_addresses_only_those_that_may_be_are_called(inside: Inside) -> None:
    found = names(["127.0.0.1", "127.0.0.2"])
    async with calling(AddressGuard(["127.0.0.2/32"]), found) as caller:
        for _ in range(4):  # whichever is the first
            outcome = await inside.called(caller, "mixed.example")
            assert outcome.kind is OutcomeKind.SUCCEEDED


@pytest.mark.parametrize(
    ("body", "kind", "pointer"),
    [
        ({"task_type": "t", "callback_url": "http://127.0.0.1/"}, SubmitTask, "/callback_url"),
        (
            {"task_type": "t", "target": {"type": "http", "url": "https://[::1]:8443/"}},
            SubmitTask,
            "/target/url",
        ),
        ({"callback_url": "http://localhost:80/"}, PatchTask, "/callback_url"),
        (
            {"task_type": "t", "interval_seconds": 60, "callback_url": "http://169.254.1.1/"},
            PutCronJob,
            "/callback_url",
        ),
        ({"target": {"type": "http", "url": "http://10.0.0.1"}}, PatchCronJob, "/target/url"),
    ],
)
def test_a_target_that_is_seen_to_be_inside_is_refused_at_once(
    body: dict[str, Any], kind: type[Any], pointer: str
) -> None:
    asked = msgspec.convert(body, kind)
    with pytest.raises(InvalidTask, match="not a public address") as refused:
        check_target(AddressGuard(), asked)
    assert refused.value.pointer == pointer
    check_target(None, asked)
    allowing = ("127.0.0.0/8", "::1/128", "169.254.0.0/16", "10.0.0.0/8")
    check_target(AddressGuard(allowing), asked)


@pytest.mark.parametrize("url", ["https://example.com/", "http://1.1.1.1/", "http://[half"])
def test_other_targets_pass(url: str) -> None:
    check_target(
        AddressGuard(), msgspec.convert({"task_type": "t", "callback_url": url}, SubmitTask)
    )


async def test_a_connection_of_one_tenant_serves_no_other_that_may_not_have_it() -> None:
    calls: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        calls.append(request.headers["gnomon-tenant"])
        return web.Response()  # the connection is kept

    app = web.Application()
    app.router.add_route("*", "/", answer)
    guards = {"inside": AddressGuard(["127.0.0.0/8"]), "outside": AddressGuard()}
    async with (
        TestServer(app) as server,
        HttpCaller(SystemClock(), None, 10, guards.__getitem__) as caller,
    ):
        target = HttpTarget(f"http://127.0.0.1:{server.port}/")
        outcomes = {}
        for tenant in ("inside", "outside", "inside"):
            delivery = a_delivery(1)
            key = TaskKey(tenant, delivery.key.id)
            delivery = msgspec.structs.replace(delivery, key=key, target=target)
            outcome = await caller.call(delivery, b"{}", TaskContext(delivery))
            assert outcome is not None
            outcomes[tenant] = outcome.kind
    assert outcomes == {"inside": OutcomeKind.SUCCEEDED, "outside": OutcomeKind.FAILED}
    assert calls == ["inside", "inside"]

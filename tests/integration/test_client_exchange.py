"""The clients against a server that answers from a script, over real sockets."""

import asyncio
import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.integration.clients import KINDS, EitherClient, client_at

from gnomon import (
    ApiProblem,
    ApiUnreachable,
    InvalidRequest,
    KeySpec,
    NotFound,
    QuotaReached,
    RateLimited,
    Role,
    SubmittedTask,
    TaskSpec,
    Unavailable,
)
from gnomon.client.client import DocumentClient

TASK_ID = "019a0000-0000-7000-8000-000000000000"
RECEIPT = {"task_id": TASK_ID, "status": "READY"}


class ScriptedApi:
    """Gives its answers in turn, and keeps what it was asked. None: it cuts the connection."""

    def __init__(self, *answers: web.Response | None) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, str, Any]] = []
        self.keys: list[str | None] = []

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else None
        self.asked.append((request.method, request.raw_path, body))
        self.keys.append(request.headers.get("Idempotency-Key"))
        answer = self._answers.pop(0)
        if answer is None:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return answer


@asynccontextmanager
async def served(api: ScriptedApi) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.answer)
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


@asynccontextmanager
async def client_of(
    api: ScriptedApi, kind: str = "async", **options: Any
) -> AsyncIterator[EitherClient]:
    async with served(api) as url, client_at(kind, url, **options) as client:
        yield client


def problem(status: int, retry_after: str | None = None, **members: Any) -> web.Response:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return web.json_response(
        members, status=status, headers=headers, content_type="application/problem+json"
    )


def accepted() -> web.Response:
    return web.json_response(RECEIPT, status=202)


async def test_a_submission_is_sent_without_what_was_not_given() -> None:
    api = ScriptedApi(accepted())
    async with client_of(api) as client:
        made = await client.ask("submit_task", TaskSpec(task_type="x", payload={"ü": 1}))
    assert api.asked == [("POST", "/api/v1/tasks", {"task_type": "x", "payload": {"ü": 1}})]
    # A key that may not read is told this much.
    assert isinstance(made, SubmittedTask)
    assert str(made.task_id) == TASK_ID


async def test_documents_are_sent_and_returned_as_they_are() -> None:
    api = ScriptedApi(web.json_response({"task_id": "1", "new": [2]}, status=202))
    async with served(api) as url, DocumentClient(url) as client:
        assert await client.submit_task({"odd": "x"}) == {"task_id": "1", "new": [2]}
    assert api.asked == [("POST", "/api/v1/tasks", {"odd": "x"})]


@pytest.mark.parametrize("kind", KINDS)
async def test_pages_are_followed_to_the_last(kind: str) -> None:
    event: dict[str, Any] = {
        "event_id": TASK_ID, "kind": "k", "at": "2026-01-01T00:00:00Z",
        "number": 1, "fingerprint": "0123456789abcdef",
        "cron_job_id": None, "task_id": None, "detail": {}, "severity": "info",
        "acknowledged_at": None, "acknowledged_by": None, "note": None, "unknown_member": 1,
    }  # fmt: skip
    api = ScriptedApi(
        web.json_response({"events": [event, event], "next_cursor": "a b"}),
        web.json_response({"events": [], "next_cursor": "c"}),
        web.json_response({"events": [event], "next_cursor": "d"}),
    )
    async with client_of(api, kind) as client:
        found = await client.all_of("list_events", kind="a&b", limit=3)
    assert [each.kind for each in found] == ["k", "k", "k"]
    assert [path for _, path, _ in api.asked] == [
        "/api/v1/events?kind=a%26b&limit=3",
        "/api/v1/events?kind=a%26b&limit=1&cursor=a+b",
        "/api/v1/events?kind=a%26b&limit=1&cursor=c",
    ]


async def test_a_problem_document_is_raised_with_its_places() -> None:
    api = ScriptedApi(
        problem(
            422,
            title="Invalid value",
            detail="the task was not stored",
            errors=[{"pointer": "/priority", "detail": "must be one of CRITICAL, …"}],
        )
    )
    async with client_of(api) as client:
        with pytest.raises(InvalidRequest) as raised:
            await client.ask("submit_task", TaskSpec(task_type="x"))
    assert raised.value.status == 422
    assert raised.value.errors[0].pointer == "/priority"
    assert "/priority: must be one of" in str(raised.value)
    copy = pickle.loads(pickle.dumps(raised.value))
    assert (type(copy), str(copy), copy.errors) == (
        InvalidRequest, str(raised.value), raised.value.errors,
    )  # fmt: skip


@pytest.mark.parametrize(
    "answer",
    [
        web.Response(status=302, headers={"Location": "https://login.example/"}),
        web.json_response(["not", "an", "object"], status=404),
        web.Response(status=502, text="<html>bad gateway</html>", content_type="text/html"),
    ],
    ids=["a redirect", "another shape", "a proxy's page"],
)
async def test_an_answer_that_is_not_ours_is_a_problem_too(answer: web.Response) -> None:
    async with client_of(ScriptedApi(answer), retries=0) as client:
        with pytest.raises(ApiProblem) as raised:
            await client.ask("get_task", "1")
    assert raised.value.status == answer.status


@pytest.mark.parametrize(
    "answer", [web.Response(text="welcome to nginx"), web.json_response({"hello": "world"})]
)
async def test_success_that_is_not_ours_is_a_problem(answer: web.Response) -> None:
    async with client_of(ScriptedApi(answer)) as client:
        with pytest.raises(ApiProblem, match="not Gnomon"):
            await client.ask("get_task", "1")


@pytest.mark.parametrize(
    ("task_id", "path"),
    [("../dead-letters?x=1", "..%2Fdead-letters%3Fx%3D1"), ("..", "%2E%2E"), ("a b%", "a%20b%25")],
)
@pytest.mark.parametrize("kind", KINDS)
async def test_an_id_stays_one_segment_of_the_path(kind: str, task_id: str, path: str) -> None:
    api = ScriptedApi(problem(404, title="Not found"))
    async with client_of(api, kind) as client:
        with pytest.raises(NotFound):
            await client.ask("retry_task", task_id)
    assert api.asked[0][1] == f"/api/v1/tasks/{path}/retry"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_is_down_is_named_with_the_reason(
    kind: str, unused_tcp_port: int
) -> None:
    url = f"http://127.0.0.1:{unused_tcp_port}"
    async with client_at(kind, url, retries=1) as client:
        with pytest.raises(ApiUnreachable) as raised:
            await client.ask("get_task", "1")
        assert not await client.ask("ready")
    assert str(raised.value) == f"the API does not answer at {url} (connection refused)"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_does_not_speak_in_time_is_unreachable(kind: str) -> None:
    async def never(request: web.Request) -> web.Response:
        await request.read()
        return await never_answered

    never_answered: asyncio.Future[web.Response] = asyncio.get_running_loop().create_future()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", never)
    async with TestServer(app) as server:
        async with client_at(kind, server.make_url("/"), timeout=0.05) as client:
            with pytest.raises(ApiUnreachable, match="in time"):
                await client.ask("get_task", "1")
        never_answered.cancel()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "refused",
    [None, problem(503, "0"), problem(429, "0"), problem(409, "0"), problem(502)],
    ids=["cut", "503", "429", "in progress", "a proxy"],
)
async def test_a_submission_is_repeated_under_one_key(
    kind: str, refused: web.Response | None
) -> None:
    again = None if refused is None else problem(refused.status, "0")
    api = ScriptedApi(again, accepted())
    async with client_of(api, kind) as client:
        await client.ask("submit_task", TaskSpec(task_type="x"))
    assert len(api.keys) == 2
    assert api.keys[0] is not None
    assert len(set(api.keys)) == 1


async def test_a_key_of_ones_own_is_sent_in_place_of_a_made_one() -> None:
    api = ScriptedApi(accepted(), accepted())
    async with client_of(api) as client:
        await client.ask("submit_task", TaskSpec(task_type="x"), idempotency_key="mine")
        await client.ask("submit_task", TaskSpec(task_type="x", idempotency_key="the body's"))
    assert api.keys == ["mine", "the body's"]


async def test_without_retries_no_key_is_made() -> None:
    api = ScriptedApi(None)
    async with client_of(api, retries=0) as client:
        with pytest.raises(ApiUnreachable):
            await client.ask("submit_task", TaskSpec(task_type="x"))
    assert api.keys == [None]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_takes_no_key_is_not_repeated_when_it_was_cut_off(kind: str) -> None:
    api = ScriptedApi(None)
    async with client_of(api, kind) as client:
        with pytest.raises(ApiUnreachable):
            await client.ask("create_key", KeySpec(name="k", roles=[Role.READ]))
    assert len(api.asked) == 1


async def test_a_removal_that_was_cut_off_and_is_gone_has_succeeded() -> None:
    api = ScriptedApi(None, problem(404, title="Not found"), problem(404, title="Not found"))
    async with client_of(api) as client:
        await client.ask("delete_limiter", "l")
        with pytest.raises(NotFound):
            await client.ask("delete_limiter", "l")


@pytest.mark.parametrize(
    ("answer", "error", "retry_after"),
    [
        (problem(429, title="Too many requests"), RateLimited, None),
        (problem(507, "30", title="No room for new work"), Unavailable, 30.0),
        (problem(503, "3600", title="Unavailable"), Unavailable, 3600.0),
        (
            problem(
                429,
                "90",
                type="urn:gnomon:problem:quota-exceeded",
                title="Quota exceeded",
                quota="scheduled_tasks",
                limit=10,
                used=10,
            ),
            QuotaReached,
            90.0,
        ),
    ],
)
async def test_a_refusal_that_lasts_is_raised_at_once(
    answer: web.Response, error: type[ApiProblem], retry_after: float | None
) -> None:
    api = ScriptedApi(answer)
    async with client_of(api) as client:
        with pytest.raises(error) as raised:
            await client.ask("submit_task", TaskSpec(task_type="x"))
    assert raised.value.retry_after == retry_after
    if isinstance(raised.value, QuotaReached):
        assert (raised.value.quota, raised.value.limit, raised.value.used) == (
            "scheduled_tasks", 10, 10,
        )  # fmt: skip


async def test_retries_come_to_an_end() -> None:
    api = ScriptedApi(*(problem(503, "0", title="Unavailable") for _ in range(3)))
    async with client_of(api, retries=2) as client:
        with pytest.raises(Unavailable):
            await client.ask("get_task", "1")
    assert len(api.asked) == 3

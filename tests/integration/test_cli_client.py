"""The client against a server that answers from a script, over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gnomon.client.client import Client
from gnomon.client.errors import ApiProblem, ApiUnreachable

Json = dict[str, Any]


class ScriptedApi:
    """Gives its answers in turn, and keeps what it was asked."""

    def __init__(self, *answers: web.Response) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, str, Any]] = []

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else None
        self.asked.append((request.method, request.raw_path, body))
        return self._answers.pop(0)


@asynccontextmanager
async def client_of(api: ScriptedApi) -> AsyncIterator[Client]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.answer)
    async with TestServer(app) as server, Client(str(server.make_url("/"))) as client:
        yield client


def problem(status: int, **members: Any) -> web.Response:
    return web.json_response(members, status=status, content_type="application/problem+json")


async def test_a_submission_is_sent_as_it_is() -> None:
    api = ScriptedApi(web.json_response({"task_id": "1"}, status=202))
    async with client_of(api) as client:
        assert await client.submit({"task_type": "x", "payload": {"ü": 1}}) == {"task_id": "1"}
    assert api.asked == [("POST", "/api/v1/tasks", {"task_type": "x", "payload": {"ü": 1}})]


async def test_pages_are_followed_to_the_last() -> None:
    api = ScriptedApi(
        web.json_response({"tasks": [{"n": 1}, {"n": 2}], "next_cursor": "a b"}),
        web.json_response({"tasks": [], "next_cursor": "c"}),
        web.json_response({"tasks": [{"n": 3}], "next_cursor": None}),
    )
    async with client_of(api) as client:
        found = [task["n"] async for task in client.list({"tag": "a&b"})]
    assert found == [1, 2, 3]
    assert [path for _, path, _ in api.asked] == [
        "/api/v1/tasks?tag=a%26b",
        "/api/v1/tasks?tag=a%26b&cursor=a+b",
        "/api/v1/tasks?tag=a%26b&cursor=c",
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
        with pytest.raises(ApiProblem) as raised:
            await client.submit({})
    assert raised.value.status == 422
    assert raised.value.errors[0].pointer == "/priority"
    assert "/priority: must be one of" in str(raised.value)


@pytest.mark.parametrize(
    "answer",
    [
        web.Response(status=502, text="<html>bad gateway</html>", content_type="text/html"),
        web.Response(status=302, headers={"Location": "https://login.example/"}),
        web.json_response(["not", "an", "object"], status=404),
    ],
    ids=["a proxy's page", "a redirect", "another shape"],
)
async def test_an_answer_that_is_not_ours_is_a_problem_too(answer: web.Response) -> None:
    async with client_of(ScriptedApi(answer)) as client:
        with pytest.raises(ApiProblem) as raised:
            await client.get("1")
    assert raised.value.status == answer.status


async def test_success_without_json_is_a_problem() -> None:
    async with client_of(ScriptedApi(web.Response(text="welcome to nginx"))) as client:
        with pytest.raises(ApiProblem, match="not Gnomon"):
            await client.get("1")


async def test_an_id_stays_one_segment_of_the_path() -> None:
    api = ScriptedApi(problem(404, title="Not found"))
    async with client_of(api) as client:
        with pytest.raises(ApiProblem):
            await client.action("../dead-letters?x=1", "retry")
    assert api.asked[0][1] == "/api/v1/tasks/..%2Fdead-letters%3Fx%3D1/retry"


async def test_silence_is_unreachable(unused_tcp_port: int) -> None:
    async with Client(f"http://127.0.0.1:{unused_tcp_port}") as client:
        with pytest.raises(ApiUnreachable, match="connection refused"):
            await client.get("1")
        assert not await client.ready()


async def test_a_server_that_does_not_speak_in_time_is_unreachable() -> None:
    async def never(request: web.Request) -> web.Response:
        await request.read()
        return await never_answered

    never_answered: asyncio.Future[web.Response] = asyncio.get_running_loop().create_future()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", never)
    async with TestServer(app) as server:
        async with Client(str(server.make_url("/")), timeout=0.05) as client:
            with pytest.raises(ApiUnreachable, match="in time"):
                await client.get("1")
        never_answered.cancel()

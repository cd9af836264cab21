"""Handlers are declared by a decorator, named by their task type, and run from JSON."""

import subprocess
import sys
import threading
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from tests.unit.sdk.claimed import ID, executed

from gnomon.sdk.app import Gnomon
from gnomon.sdk.declaring.handler import Runs
from gnomon.sdk.errors import InvalidHandler, UnknownHandler
from gnomon.sdk.executing.context import TaskContext, current
from gnomon.sdk.signals import Reject


async def test_an_async_handler_gets_its_arguments_by_name_as_their_types() -> None:
    app = Gnomon()

    @app.task
    async def remind(user: UUID, at: datetime, note: str = "hi") -> str:
        return f"{user} {at:%H:%M} {note}"

    payload = b'{"at":"2030-01-31T09:30:00Z","user":"00000000-0000-0000-0000-000000000001"}'
    assert await executed(app, "remind", payload) == f"{UUID(int=1)} 09:30 hi"
    assert app.handlers["remind"] is remind
    assert remind.runs is Runs.LOOP
    assert await remind(UUID(int=1), datetime(2030, 1, 1, 8, 0, tzinfo=UTC)) == (
        f"{UUID(int=1)} 08:00 hi"
    )
    assert remind.__name__ == "remind"


async def test_a_sync_handler_runs_in_a_thread_and_gets_the_context_wherever_it_asks() -> None:
    app = Gnomon()

    @app.task
    def where(first: int, ctx: TaskContext, *, last: str) -> list[object]:
        labelled = current.get()
        assert labelled is ctx
        return [first, str(ctx.task_id), last, threading.current_thread().name]

    assert where.runs is Runs.THREAD
    ran = await executed(app, "where", b'{"last":"z","first":1,"unknown":0}')
    assert isinstance(ran, list)
    assert ran[:3] == [1, str(ID), "z"]
    assert ran[3] != threading.current_thread().name
    assert current.get() is None


@pytest.mark.parametrize("payload", [b"[1]", b"null", b"7", None])
async def test_a_handler_of_the_payload_alone_gets_all_of_it(payload: bytes | None) -> None:
    app = Gnomon()

    @app.task
    async def echo(payload: Any) -> Any:
        return payload

    want = {b"[1]": [1], b"7": 7}.get(payload or b"")
    assert await executed(app, "echo", payload) == want


async def test_a_payload_that_does_not_fit_is_rejected_by_the_name_of_the_argument() -> None:
    app = Gnomon()

    @app.task
    async def add(amounts: list[int]) -> None: ...

    with pytest.raises(Reject, match=r"add: argument amounts\[1\]: Expected `int`, got `str`"):
        await executed(app, "add", b'{"amounts":[1,"2"]}')
    with pytest.raises(Reject, match="add: argument amounts is missing"):
        await executed(app, "add", b"{}")


async def test_an_unknown_handler_is_told_with_those_that_there_are() -> None:
    app = Gnomon()

    @app.task
    async def known() -> None: ...

    with pytest.raises(UnknownHandler, match=r"no handler 'other' here \(there are: known\)"):
        await executed(app, "other")


def test_two_handlers_of_one_name_are_refused_with_both_places() -> None:
    app = Gnomon()

    def declare() -> None:
        @app.task
        async def twice() -> None: ...

    declare()
    with pytest.raises(InvalidHandler, match=r"two handlers are called 'twice': .*test_app.py:\d+"):
        declare()


def test_declaring_handlers_needs_no_server() -> None:
    code = (
        "from gnomon import Gnomon, TaskContext, Depends, Snooze, load_app\n"
        "import sys\n"
        "app = Gnomon()\n"
        "@app.task\n"
        "async def f(x: int, ctx: TaskContext) -> None: ...\n"
        "print(sorted({m.partition('.')[0] for m in sys.modules} & {'aiohttp', 'asyncpg', "
        "'granian', 'httpx', 'litestar', 'pydantic', 'structlog', 'typer', 'jsonschema_rs'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_transactional_handler_is_async_and_exactly_once() -> None:
    app = Gnomon()
    with pytest.raises(InvalidHandler, match='needs delivery="exactly_once"'):

        @app.task(transactional=True)
        async def book() -> None: ...

    with pytest.raises(InvalidHandler, match="declared with async def"):

        @app.task(delivery="exactly_once", transactional=True)
        def blocking() -> None: ...

    with pytest.raises(InvalidHandler, match="must be True or False"):

        @app.task(delivery="exactly_once", transactional="yes")  # type: ignore[call-overload]
        async def asked() -> None: ...

    assert not app.handlers

"""Middleware around each execution, and the lifespan around all of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.unit.sdk.claimed import executed

from gnomon.sdk.app import CallNext, Gnomon
from gnomon.sdk.declaring.dependencies import Depends
from gnomon.sdk.errors import InvalidHandler
from gnomon.sdk.executing.context import TaskContext
from gnomon.sdk.signals import Reject


async def test_middleware_surrounds_each_run_in_the_order_of_declaration() -> None:
    app = Gnomon()
    events: list[str] = []

    @app.middleware
    async def outer(ctx: TaskContext, call_next: CallNext) -> object:
        events.append(f"outer {ctx.task_type}")
        try:
            return await call_next()
        finally:
            events.append("outer ends")

    @app.middleware
    async def inner(ctx: TaskContext, call_next: CallNext) -> object:
        events.append("inner")
        value = await call_next()
        return [value, "seen"]

    def needed() -> str:
        events.append("needed")
        return "x"

    @app.task
    def work(n: int, needed: str = Depends(needed)) -> str:
        events.append("work")
        return f"{n}{needed}"

    assert await executed(app, "work", b'{"n":1}') == ["1x", "seen"]
    assert events == ["outer work", "inner", "needed", "work", "outer ends"]
    events.clear()
    with pytest.raises(Reject, match="argument n"):
        await executed(app, "work", b'{"n":"one"}')
    assert events == ["outer work", "inner", "outer ends"]


@pytest.mark.parametrize("function", [lambda ctx, call_next: None, Gnomon().execute, 5])
def test_what_cannot_be_middleware_is_refused(function: Any) -> None:
    with pytest.raises(InvalidHandler, match="async def name"):
        Gnomon().middleware(function)


@pytest.mark.parametrize("decorated", [False, True])
async def test_the_lifespan_holds_while_handlers_run(decorated: bool) -> None:
    app = Gnomon()

    async def lifespan(app: Gnomon) -> AsyncIterator[None]:
        app.state.pool = "open"
        yield
        app.state.pool = "closed"

    app.lifespan(asynccontextmanager(lifespan) if decorated else lifespan)

    @app.task
    async def work() -> Any:
        return app.state.pool

    async with app.running():
        assert await executed(app, "work") == "open"
    assert app.state.pool == "closed"
    with pytest.raises(InvalidHandler, match="has a lifespan already"):
        app.lifespan(lifespan)


async def test_an_app_without_a_lifespan_just_runs() -> None:
    async with Gnomon().running():
        pass


async def _no_generator(app: Gnomon) -> None: ...


@pytest.mark.parametrize("function", [_no_generator, lambda: None, 5])
def test_what_cannot_be_a_lifespan_is_refused(function: Any) -> None:
    with pytest.raises(InvalidHandler, match="a lifespan is written"):
        Gnomon().lifespan(function)

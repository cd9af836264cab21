"""FastAPI and Starlette: an app that submits for as long as the web application runs."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from gnomon.sdk.app import Gnomon

WebLifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


def lifespan(app: Gnomon, inner: WebLifespan | None = None) -> WebLifespan:
    """A lifespan for `FastAPI(lifespan=...)`: it decides at the start what the app submits to, so
    that a wrong setting is told there, and closes its connections at the end. `inner` is a lifespan
    of your own, which runs within."""

    @asynccontextmanager
    async def running(web: Any) -> AsyncIterator[Any]:
        _ = app.client
        async with app:
            if inner is None:
                yield
                return
            async with inner(web) as state:
                yield state

    return running

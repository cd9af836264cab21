"""Handlers that use Django's database connections."""

from collections.abc import Awaitable, Callable

from django.db import close_old_connections

from gnomon.sdk.app import Gnomon
from gnomon.sdk.declaring.handler import Blocking
from gnomon.sdk.executing.context import TaskContext


class DjangoGnomon(Gnomon):
    """A `Gnomon` whose handlers find a usable connection: as before and after a request, those that
    are broken or older than CONN_MAX_AGE are closed, in the thread that the handler runs in."""

    async def execute(
        self, name: str, payload: bytes | None, ctx: TaskContext, blocking: Blocking
    ) -> object:
        def within(work: Callable[[], object]) -> Awaitable[object]:
            return blocking(lambda: _with_fresh_connections(work))

        return await super().execute(name, payload, ctx, within)


def _with_fresh_connections(work: Callable[[], object]) -> object:
    close_old_connections()
    try:
        return work()
    finally:
        close_old_connections()

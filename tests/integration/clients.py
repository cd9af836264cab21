"""Both clients behind one face, so that a test is about both."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from gnomon import Client, SyncClient

KINDS = ["async", "sync"]


class EitherClient:
    """A Client, or a SyncClient in a thread."""

    def __init__(self, client: Client | SyncClient) -> None:
        self.client = client

    async def ask(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """The result of a method."""
        return await self._do(getattr(self.client, name), *args, **kwargs)

    async def all_of(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        """The items of a list."""
        listed: Any = getattr(self.client, name)(*args, **kwargs)
        if isinstance(self.client, SyncClient):
            return await asyncio.to_thread(list, listed)
        return [item async for item in listed]

    async def _do(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if isinstance(self.client, SyncClient):
            return await asyncio.to_thread(method, *args, **kwargs)
        return await method(*args, **kwargs)


@asynccontextmanager
async def client_at(kind: str, url: Any, **options: Any) -> AsyncIterator[EitherClient]:
    made = (Client if kind == "async" else SyncClient)(str(url), **options)
    either = EitherClient(made)
    try:
        yield either
    finally:
        await either.ask("close")

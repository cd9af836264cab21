"""Both ends of a pipe whose server says what no server says: what its client makes of that is an
error that nobody has thought of. It ends one connection, and nothing else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.brokers import ValkeyServer
from tests.integration.pipe_calls import pipe_ends
from tests.waiting import eventually

_NONSENSE = b"*1\r\n:1\r\n"  # to one who has subscribed


class TalkingProxy:
    """Carries bytes to a server, and puts in a word of its own when asked."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._clients: set[asyncio.StreamWriter] = set()

    def interject(self, words: bytes) -> None:
        """Say this to all who are connected now."""
        for client in self._clients:
            client.write(words)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        """Gives its port."""
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        yield server.sockets[0].getsockname()[1]
        server.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(writer)
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        async with asyncio.TaskGroup() as group:
            group.create_task(_copy(reader, to_server))
            group.create_task(_copy(from_server, writer))
        self._clients.discard(writer)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def test_nonsense_ends_a_connection_and_the_next_one_works(valkey: ValkeyServer) -> None:
    proxy = TalkingProxy(valkey.port)
    async with proxy.listening() as port, pipe_ends(f"redis://127.0.0.1:{port}") as ends:
        assert await ends.up.get()
        assert await ends.ask("before") == "before"
        proxy.interject(_NONSENSE)
        assert await ends.up.get() is False, "nobody can be reached, and the metric says so"
        (trouble,) = ends.troubles.all()
        assert trouble.chore == "redis-pipe"
        assert await ends.up.get()
        assert not ends.troubles.all()
        await eventually(lambda: ends.answered("after"))

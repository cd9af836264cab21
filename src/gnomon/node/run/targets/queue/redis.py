"""Redis Streams, and those of Valkey: a message is an entry, its headers are fields."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis import exceptions
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from gnomon.node.run.targets.queue import Credentials, Message, NotPublished
from gnomon.settings.queues import QueueConnection

_CONNECT_SECONDS = 5.0
_MOST_CONNECTIONS = 100
# Of the server, and not of the message.
_UNWELL = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.OutOfMemoryError,
    exceptions.ReadOnlyError,
    exceptions.MasterDownError,
    exceptions.TryAgainError,
    OSError,
)


class RedisBroker:
    """`Broker` for Redis 7, Valkey and later."""

    def __init__(self, settings: QueueConnection, credentials: Credentials) -> None:
        self._settings = settings
        options: dict[str, Any] = {}
        if settings.scheme == "rediss":
            options["ssl_ca_certs"] = settings.ca_file
            if settings.certificate_file is not None:
                options |= {
                    "ssl_certfile": settings.certificate_file,
                    "ssl_keyfile": settings.key_file,
                }
        if credentials.password is not None:
            options["password"] = credentials.password
        self._client: Redis = Redis.from_url(
            settings.url,
            socket_connect_timeout=_CONNECT_SECONDS,
            max_connections=_MOST_CONNECTIONS,
            retry=Retry(NoBackoff(), 0),  # one execution is one request
            **options,
        )

    async def connect(self) -> None:
        """Makes a connection where none is idle, or the idle one is closed; nothing is asked on an
        open one. The command that follows takes it, unless another one was quicker."""
        with _problems_of(None):
            pool: Any = self._client.connection_pool
            await pool.release(await pool.get_connection())

    async def publish(self, topic: str, message: Message) -> str:
        fields: dict[Any, Any] = {"payload": message.body, **message.headers}
        if message.key is not None:
            fields["key"] = message.key
        with _problems_of(topic):
            given = await self._client.xadd(
                topic,
                fields,
                maxlen=self._settings.max_length,
                approximate=True,
                nomkstream=not self._settings.create_streams,
            )
        if given is None:
            raise NotPublished(f"there is no stream {topic}", unwell=False)
        return given.decode() if isinstance(given, bytes) else str(given)

    async def close(self) -> None:
        await self._client.aclose()


@contextmanager
def _problems_of(topic: str | None) -> Iterator[None]:
    """Raises NotPublished for what goes wrong with a topic, or with the connection alone."""
    try:
        yield
    except (exceptions.AuthenticationError, exceptions.NoPermissionError) as error:
        if "permissions to access" in str(error):  # this key, and perhaps no other
            why = f"the broker does not let the connection write to the stream {topic}"
            raise NotPublished(why, unwell=False) from error
        raise NotPublished("the broker refuses the credentials of the connection") from error
    except _UNWELL as error:
        raise NotPublished(f"{type(error).__name__}: {error}") from error
    except exceptions.ResponseError as error:
        raise _refused(topic, str(error)) from error


def _refused(topic: str | None, why: str) -> NotPublished:
    if why.startswith(("WRONGPASS", "NOAUTH", "NOPERM")) or "AUTH" in why.split(" ")[0]:
        return NotPublished("the broker refuses the credentials of the connection")
    if why.startswith("WRONGTYPE"):
        return NotPublished(f"{topic} is a key, but not a stream", again=False, unwell=False)
    return NotPublished(why[:500])

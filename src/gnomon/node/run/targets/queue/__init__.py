"""Messages: one published for each execution, and confirmed by the broker."""

from typing import NamedTuple, Protocol

from gnomon.model.errors import GnomonError


class Message(NamedTuple):
    """A message as every broker takes it."""

    id: str
    body: bytes
    headers: dict[str, str]
    key: str | None


class Credentials(NamedTuple):
    """The contents of the files of a connection, and where TLS finds them."""

    password: str | None
    files: tuple[bytes | None, ...]  # authorities, certificate, key: others, another connection


class NotPublished(GnomonError):
    """The broker did not take a message. `again`: it may later. `unwell`: no word about the
    message, but about the broker, so the breaker of the connection counts it. `wrong`: the message
    itself is refused, and another one to the same topic may not be."""

    def __init__(
        self, why: str, *, again: bool = True, unwell: bool = True, wrong: bool = False
    ) -> None:
        super().__init__(why)
        self.again = again
        self.unwell = unwell
        self.wrong = wrong


class Broker(Protocol):
    """A connection to a broker, made for the first message."""

    async def connect(self) -> None:
        """Wait for the connection, where that can be told apart from publishing: what comes after
        this does not wait for it. Raises NotPublished."""

    async def publish(self, topic: str, message: Message) -> str:
        """Gives what the broker calls it, once the broker has it. Raises NotPublished."""

    async def close(self) -> None: ...

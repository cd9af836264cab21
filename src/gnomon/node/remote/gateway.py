"""A gateway, as the API asks for it."""

from typing import Protocol

from gnomon.node.remote.desk import SessionDesk


class Gateway(Protocol):
    """The gateway of a process, which starts with the first session."""

    async def desk(self) -> SessionDesk:
        """Its desk. Raises GatewayUnready."""

    def stop(self) -> None:
        """Answer waiting polls, and end."""

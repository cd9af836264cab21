"""The chore of publishing the feeds of one connection, which one node at a time has."""

from gnomon.clock import Clock
from gnomon.node.membership.lease import Lease
from gnomon.store.postgres.dispatch.roster import PostgresChores

_HOLD_SECONDS = 30.0  # longer than one chunk of outcomes takes
_ASK_SECONDS = 5.0  # where another node has it
_REST_SECONDS = 2 * _ASK_SECONDS  # after giving it up: all others have asked by then


class FeedChore:
    """Takes the chore and keeps it, and gives it up where this node cannot publish and another one
    perhaps can."""

    def __init__(self, connection: str, chores: PostgresChores, lease: Lease, clock: Clock) -> None:
        self.connection = connection
        self.name = f"feeds:{connection}"
        self._chores = chores
        self._lease = lease
        self._clock = clock
        self._rests_until = clock.monotonic()
        self._published_at: float | None = None

    async def hold(self) -> bool:
        """False while another node has it, and for a while after this one has given it up."""
        if self._clock.monotonic() < self._rests_until:
            return False
        if await self._chores.hold(self.name, self._lease.incarnation, _HOLD_SECONDS):
            return True
        self._rest(_ASK_SECONDS)
        return False

    def published(self) -> None:
        """The broker has confirmed something."""
        self._published_at = self._clock.monotonic()

    async def failed(self) -> None:
        """The broker cannot be reached, or not for some feed. Who could publish just now keeps the
        chore: it is rather the feed."""
        now = self._clock.monotonic()
        if self._published_at is not None and now - self._published_at < _HOLD_SECONDS:
            return
        if self._rests_until <= now:
            self._rest(_REST_SECONDS)
            await self._chores.hold(self.name, self._lease.incarnation, 0.0)

    def _rest(self, seconds: float) -> None:
        self._rests_until = self._clock.monotonic() + seconds

"""Calls a URL while all is well: whoever watches it hears of what nobody here can tell."""

from gnomon.clock import EPOCH, Clock
from gnomon.model.targets.target import HttpTarget
from gnomon.node.membership.lease import Lease
from gnomon.notify.notification import Notification, Purpose
from gnomon.settings import NotifySettings
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.notify.notifier_store import PostgresNotifier
from gnomon.store.postgres.notify.sending import ToSend

CHORE = "heartbeat"
_HOLD_SECONDS = 15.0
_LOOKS = 3  # in each interval, so that none is left out where the holder changes
_LONGEST_LOOK = 5.0
_LOST_SECONDS = 120.0  # for which a lost node keeps it silent


class Heartbeat:
    """Each beat is a task that must start before the next one: so it tells that PostgreSQL stores,
    that nodes claim, and that calls are made in time."""

    def __init__(
        self,
        store: PostgresNotifier,
        chores: PostgresChores,
        lease: Lease,
        clock: Clock,
        settings: NotifySettings,
    ) -> None:
        self._store = store
        self._chores = chores
        self._lease = lease
        self._clock = clock
        self._url = settings.heartbeat_url
        self._seconds = settings.heartbeat_seconds
        self.every_seconds = min(_LONGEST_LOOK, self._seconds / _LOOKS)

    async def run_once(self) -> bool:
        """Gives whether a beat was sent."""
        if self._url is None:
            return False
        if not await self._chores.hold(CHORE, self._lease.incarnation, _HOLD_SECONDS):
            return False
        if not await self._store.is_well(_LOST_SECONDS):
            return False
        now = self._clock.now()
        number = int((now - EPOCH).total_seconds() // self._seconds)
        beat = Notification(
            subscription_id=None,
            subscription="heartbeat",
            tenant=None,
            purpose=Purpose.HEARTBEAT,
            at=now,
        )
        # Whoever looks again within the interval has the same key.
        wanted = ToSend(
            beat,
            f"heartbeat:{self._seconds:g}:{number}",
            host=HttpTarget(self._url).host,
            good_for=self._seconds,
        )
        return await self._store.send(wanted, now)

"""Opens, finds, renews and ends the sessions of a gateway."""

import hashlib
import hmac
from collections.abc import Callable
from uuid import UUID

import msgspec

from gnomon.clock import Clock, new_incarnation, new_secret
from gnomon.model.fleet.pool import Pool
from gnomon.model.session_errors import (
    GatewayUnready,
    TooManyWorkerSessions,
    WorkerSessionGone,
    WorkerSessionNotFound,
    WrongSessionSecret,
)
from gnomon.node.remote.adoption import Adoption
from gnomon.node.remote.conversation import Conversation, PendingPoll
from gnomon.node.remote.keyed_locks import KeyedLocks
from gnomon.node.remote.renewals import SessionRenewals
from gnomon.pipe.http.messages import BeatAnswer, Poll, PollAnswer, SessionOpened, SessionOpening
from gnomon.pipe.http.session import WorkerSession
from gnomon.settings import GatewaySettings
from gnomon.store.ports.worker_sessions import KeptSession, NewWorkerSession

_SECRET_BYTES = 32
_MOST_KNOWN = 20_000  # sessions of other gateways, whose beats came here
BEATS_A_LEASE = 3


class SessionCaller(msgspec.Struct, frozen=True):
    """Who calls for a session: the tenant and key of the request, the secret in it, and whether it
    came through a broker."""

    tenant_id: str
    key_id: UUID | None
    secret: str | None = None
    carried: bool = False


class _Holder(msgspec.Struct, frozen=True):
    """Whose a session is."""

    tenant_id: str
    secret: bytes


class SessionDesk:
    """The sessions of one incarnation of a gateway, as requests see them."""

    def __init__(
        self,
        conversation: Conversation,
        renewals: SessionRenewals,
        adoption: Adoption,
        clock: Clock,
        settings: GatewaySettings,
        on_pools: Callable[[], None],
    ) -> None:
        self._pipe = conversation.pipe
        self._conversation = conversation
        self._renewals = renewals
        self._adoption = adoption
        self._store = adoption.store
        self._lease = adoption.lease
        self._clock = clock
        self._settings = settings
        self._on_pools = on_pools  # what the sessions serve may have changed
        self._elsewhere: dict[UUID, _Holder] = {}  # of other gateways
        self._locks = KeyedLocks()  # of sessions to be adopted, and of tenants who open one
        self.closed = False

    async def open(self, opening: SessionOpening, caller: SessionCaller) -> SessionOpened:
        """A new session. Raises TooManyWorkerSessions, StoreError."""
        self._check_open()
        secret = new_secret(_SECRET_BYTES).hex()
        pool = Pool(
            tenants=frozenset({caller.tenant_id}),
            queues=frozenset(opening.queues or ()),
            webhooks=False,
            handlers=frozenset(opening.handlers),
        )
        settings, asked_at = self._settings, self._clock.monotonic()
        new = NewWorkerSession(
            incarnation=new_incarnation(),
            name=opening.name,
            slots=opening.slots,
            pool=pool,
            tenant_id=caller.tenant_id,
            secret=_hash(secret),
            key_id=caller.key_id,
            gateway=self._lease.incarnation,
            labels=opening.labels or {},
            client=opening.client,
        )
        async with self._locks.alone(caller.tenant_id):  # so that all of them are counted
            room = await self._store.open(
                new, settings.lease_seconds, settings.tenant_sessions, settings.key_sessions
            )
        if not room.entered:
            of_tenant = room.of_tenant >= settings.tenant_sessions
            whose = "the tenant" if of_tenant else "this key"
            raise TooManyWorkerSessions(whose, room.of_tenant if of_tenant else room.of_key)
        self._check_open()
        session = WorkerSession(
            new.incarnation, new.name, pool, new.slots, new.secret, _new_epoch()
        )
        session.synced = True
        self._trust(session, asked_at)
        self._pipe.add(session)
        self._on_pools()
        return SessionOpened(
            session_id=session.incarnation,
            secret=secret,
            tenant_id=caller.tenant_id,
            lease_seconds=settings.lease_seconds,
            beat_seconds=settings.lease_seconds / BEATS_A_LEASE,
            poll_seconds=settings.poll_seconds,
            epoch=session.epoch,
        )

    async def poll(
        self, session_id: UUID, caller: SessionCaller, poll: Poll
    ) -> PollAnswer | PendingPoll:
        """Hear a poll: the answer, or a wait for it. Raises WorkerSessionNotFound,
        WorkerSessionGone, WrongSessionSecret, GatewayUnready, StoreError."""
        session = await self._session(session_id, caller, poll)
        session.carried = caller.carried
        longest = self._settings.poll_seconds
        if poll.wait_seconds > longest:
            poll = msgspec.structs.replace(poll, wait_seconds=longest)
        return self._conversation.hear(session, poll)

    async def beat(self, session_id: UUID, caller: SessionCaller) -> BeatAnswer:
        """Renew a lease. Raises as `poll`."""
        self._check_open()
        session = self._pipe.sessions.get(session_id)
        if session is not None:
            _check(_Holder(session.tenant_id, session.secret), session_id, caller)
        elif session_id in self._elsewhere:
            _check(self._elsewhere[session_id], session_id, caller)
        else:
            await self._find(session_id, caller)
        renewed_at = await self._renewals.beat(session_id)
        if renewed_at is None:
            self._elsewhere.pop(session_id, None)
            self._ended(session_id)
            raise WorkerSessionGone(session_id)
        session = self._pipe.sessions.get(session_id)
        if session is not None:
            self._trust(session, renewed_at)
        return BeatAnswer(self._settings.lease_seconds)

    async def leave(self, session_id: UUID, caller: SessionCaller) -> None:
        """End a session; what it still has is swept. Raises as `poll`, but not where it has ended
        before."""
        self._check_open()
        session = self._pipe.sessions.get(session_id)
        if session is not None:
            _check(_Holder(session.tenant_id, session.secret), session_id, caller)
        else:
            try:
                await self._find(session_id, caller)
            except WorkerSessionGone:
                return
        await self._store.leave(session_id)
        self._ended(session_id)

    def close(self) -> None:
        """Answer nobody any more."""
        self.closed = True

    async def _session(self, session_id: UUID, caller: SessionCaller, poll: Poll) -> WorkerSession:
        """The session, which is this gateway's from now on."""
        self._check_open()
        known = self._known(session_id, caller, poll)
        if known is not None:
            return known
        async with self._locks.alone(session_id):
            known = self._known(session_id, caller, poll)  # adopted meanwhile
            if known is not None:
                return known
            kept = await self._find(session_id, caller)
            adopted = await self._adoption.adopt(kept, _new_epoch(), self._settings.lease_seconds)
        self._check_open()
        self._elsewhere.pop(session_id, None)
        self._on_pools()
        return adopted

    def _known(self, session_id: UUID, caller: SessionCaller, poll: Poll) -> WorkerSession | None:
        """The session, if it is this gateway's, and its worker knows that; or where the poll is one
        of before, which counts no more."""
        session = self._pipe.sessions.get(session_id)
        if session is None:
            return None
        _check(_Holder(session.tenant_id, session.secret), session_id, caller)
        of_before = poll.sequence <= session.sequence
        return session if session.epoch == poll.epoch or of_before else None

    async def _find(self, session_id: UUID, caller: SessionCaller) -> KeptSession:
        kept = await self._store.find(session_id)
        if kept is None:
            raise WorkerSessionNotFound(session_id)
        holder = _Holder(kept.tenant_id, kept.secret)
        _check(holder, session_id, caller)
        if kept.dead:
            self._ended(session_id)
            raise WorkerSessionGone(session_id)
        while len(self._elsewhere) >= _MOST_KNOWN:
            del self._elsewhere[next(iter(self._elsewhere))]
        self._elsewhere[session_id] = holder
        return kept

    def _ended(self, session_id: UUID) -> None:
        session = self._pipe.sessions.get(session_id)
        if session is not None:
            self._adoption.let_go(session)
            self._on_pools()

    def _trust(self, session: WorkerSession, renewed_at: float) -> None:
        session.renewed(renewed_at, self._settings.lease_seconds)
        self._pipe.count(session)

    def _check_open(self) -> None:
        if self.closed or self._lease.lost:
            raise GatewayUnready


def _check(holder: _Holder, session_id: UUID, caller: SessionCaller) -> None:
    """Another tenant's session looks unknown."""
    if holder.tenant_id != caller.tenant_id:
        raise WorkerSessionNotFound(session_id)
    if caller.secret is None or not hmac.compare_digest(_hash(caller.secret), holder.secret):
        raise WrongSessionSecret


def _hash(secret: str) -> bytes:
    return hashlib.sha256(b"gnomon worker session " + secret.encode()).digest()


def _new_epoch() -> str:
    return new_secret(8).hex()

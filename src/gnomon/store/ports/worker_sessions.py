"""Values of worker sessions: rows of the roster that remote workers have through gateways."""

from datetime import datetime
from uuid import UUID

import msgspec

from gnomon.model.fleet.pool import Pool
from gnomon.store.ports.dispatch import RunningTask


class NewWorkerSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session to be entered."""

    incarnation: UUID
    name: str
    slots: int
    pool: Pool
    tenant_id: str
    secret: bytes  # its hash
    key_id: UUID | None
    gateway: UUID
    labels: dict[str, str]
    client: str | None


class SessionRoom(msgspec.Struct, frozen=True):
    """Whether a session was entered, and how many its tenant and its key had before."""

    entered: bool
    of_tenant: int
    of_key: int


class KeptSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session as its row says."""

    incarnation: UUID
    name: str
    slots: int
    pool: Pool
    tenant_id: str
    secret: bytes
    gateway: UUID | None
    dead: bool
    draining: bool


class AdoptedSession(msgspec.Struct, frozen=True):
    """A session that a gateway has taken."""

    was_own: bool  # already, and so no other gateway has had it since


class ListedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A living session, as its tenant sees it."""

    incarnation: UUID
    name: str
    slots: int
    running: int
    pool: Pool
    started_at: datetime
    lease_seconds: float  # left of its lease; negative where it has run out
    gateway: str | None  # the name of that which has it; None: it is dead
    labels: dict[str, str]
    client: str | None


class ChangedSession(msgspec.Struct, frozen=True):
    """A session that is not this gateway's any more, or that shall drain."""

    incarnation: UUID
    dead: bool
    moved: bool  # another gateway has it
    draining: bool


class HeldTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that runs on a session, as its row says."""

    task: RunningTask
    preemptible: bool
    timeout_seconds: float
    started_at: float
    gateway: UUID | None  # that claims for its session

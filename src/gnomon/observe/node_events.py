"""Events of a node's own work, which are for counting alone."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from gnomon.model.insight.overview import InstallationOverview


class Recovery(StrEnum):
    """Why a running task was taken over."""

    NODE_LOST = "node_lost"
    OVERDUE = "overdue"  # past its timeout and grace
    UNKNOWN = "unknown"  # claimed by an answer that was lost


class PoolUse(NamedTuple):
    """Connections of a process to the database."""

    used: int
    idle: int
    limit: int
    waiting: int  # who wait for one


class ClaimAnswered(msgspec.Struct, frozen=True):
    """The store has answered a claim."""

    claimed: int
    missed: int  # not there any more, not due yet, or locked: others may have them
    seconds: float


class SettlementAnswered(msgspec.Struct, frozen=True):
    """The store has written settlements of executions that ran here, or refused them as stale."""

    settlements: int
    seconds: float


class TasksRecovered(msgspec.Struct, frozen=True):
    """Running tasks were taken from a node that is dead, is late with them, or does not know
    them."""

    reason: Recovery
    count: int
    # Of each node that was lost, how long it had not renewed its lease when its tasks were settled.
    silences: Sequence[float] = ()


class RoomSeen(msgspec.Struct, frozen=True):
    """A look at the disk of PostgreSQL, where this machine has it."""

    free: int | None  # bytes
    disk: int | None


class LeaseRenewal(msgspec.Struct, frozen=True):
    """The node has tried to renew its lease."""

    renewed: bool


class NodeSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A look at what a node has, and uses."""

    slots: int
    busy: int
    shards: int
    clock_offset: float  # seconds that the database's clock is ahead of this machine's
    connections: PoolUse


class InstallationSeen(msgspec.Struct, frozen=True):
    """A look over the whole installation; None: it is another node's to look."""

    overview: InstallationOverview | None


class SessionsSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A look at the sessions of a gateway: how many there are, and what has gone between it and
    them since the last look."""

    sessions: int
    waiting: int  # whose workers wait for an answer
    delivered: int
    accepted: int  # reports
    refused: int


class OutcomesPublished(msgspec.Struct, frozen=True):
    """Outcomes were published by a feed; `failed`: others could not be."""

    count: int
    failed: bool


NodeEvent = (
    ClaimAnswered
    | OutcomesPublished
    | SettlementAnswered
    | TasksRecovered
    | LeaseRenewal
    | NodeSeen
    | RoomSeen
    | InstallationSeen
    | SessionsSeen
)

"""Worker sessions on PostgreSQL: opened, renewed, adopted and left."""

from collections.abc import Sequence
from uuid import UUID

import asyncpg
import msgspec

from gnomon.model.fleet.pool import Pool
from gnomon.store.ports.worker_sessions import (
    AdoptedSession,
    ChangedSession,
    HeldTask,
    KeptSession,
    ListedSession,
    NewWorkerSession,
    SessionRoom,
)
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import running_task
from gnomon.store.postgres.dispatch.pools import pool_of, serves_of
from gnomon.version import VERSION

RENEWED_WITHIN = 0.2  # of a lease: else the renewal has failed
FOUND_WITHIN = 2.0  # seconds, for the same reason


class PostgresWorkerSessions:
    """The sessions of all gateways, as their rows say."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(
        self, new: NewWorkerSession, lease: float, most_of_tenant: int, most_of_key: int
    ) -> SessionRoom:
        """Enter a session, unless its tenant or its key has as many as it may."""
        about = msgspec.json.encode({"labels": new.labels, "client": new.client}).decode()
        row = await self._database.fetchrow(
            "open_worker_session",
            new.incarnation, new.name, VERSION, new.slots, lease, serves_of(new.pool),
            new.tenant_id, new.secret, new.key_id, new.gateway, about, most_of_tenant, most_of_key,
        )  # fmt: skip
        assert row is not None, "a count always gives a row"
        return SessionRoom(row["entered"], row["of_tenant"], row["of_key"])

    async def find(self, incarnation: UUID) -> KeptSession | None:
        """A session, living or dead."""
        rows = await self._database.fetch_within(FOUND_WITHIN, "worker_session", incarnation)
        if not rows:
            return None
        (row,) = rows
        return KeptSession(
            incarnation=row["incarnation"],
            name=row["name"],
            slots=row["slots"],
            pool=pool_of(row["serves"]),
            tenant_id=row["tenant_id"],
            secret=row["secret"],
            gateway=row["gateway"],
            dead=row["dead"],
            draining=row["draining"],
        )

    async def list_living(self, tenant_id: str, most: int) -> list[ListedSession]:
        """The living sessions of a tenant, the oldest first."""
        rows = await self._database.fetch("list_worker_sessions", tenant_id, most)
        return [_listed(row) for row in rows]

    async def adopt(self, incarnation: UUID, gateway: UUID, lease: float) -> AdoptedSession | None:
        """Let this gateway alone claim for the session from now on, and extend its lease; None
        where it is dead."""
        row = await self._database.fetchrow("adopt_worker_session", incarnation, gateway, lease)
        return None if row is None else AdoptedSession(was_own=row["was_own"])

    async def renew(self, incarnations: Sequence[UUID], lease: float) -> set[UUID]:
        """Extend the leases of these; gives those that were not declared dead. Given up early
        enough for their workers to ask another gateway."""
        seconds = lease * RENEWED_WITHIN
        rows = await self._database.fetch_within(
            seconds, "renew_worker_sessions", incarnations, lease
        )
        return {row["incarnation"] for row in rows}

    async def leases(self, incarnations: Sequence[UUID]) -> dict[UUID, float]:
        """How long the leases of these are still good, in seconds, whoever renewed them."""
        rows = await self._database.fetch("worker_session_leases", incarnations)
        return {row["incarnation"]: row["lease_seconds"] for row in rows}

    async def drain(self, incarnation: UUID, tenant_id: str) -> bool:
        """Have its worker told to leave; False where the tenant has no such living session."""
        row = await self._database.fetchrow("drain_worker_session", incarnation, tenant_id)
        return row is not None

    async def changed(self, incarnations: Sequence[UUID], gateway: UUID) -> list[ChangedSession]:
        """Those that are dead, that another gateway has adopted, or that shall drain."""
        rows = await self._database.fetch("changed_worker_sessions", incarnations, gateway)
        return [ChangedSession(**row) for row in rows]

    async def held(self, incarnations: Sequence[UUID]) -> list[HeldTask]:
        """The tasks that run on these."""
        rows = await self._database.fetch("held_by_sessions", incarnations)
        return [
            HeldTask(
                task=running_task(row),
                preemptible=row["preemptible"],
                timeout_seconds=row["timeout_seconds"],
                started_at=row["started_at"],
                gateway=row["gateway"],
            )
            for row in rows
        ]

    async def leave(self, incarnation: UUID) -> None:
        """Let a session leave: what still runs on it is swept."""
        await self._database.execute("leave_roster", incarnation)

    async def serve(self, gateway: UUID, slots: int, pool: Pool) -> None:
        """Note what a gateway serves now."""
        await self._database.execute("change_gateway", gateway, slots, serves_of(pool))


class _About(msgspec.Struct):
    labels: dict[str, str] = {}
    client: str | None = None


def _listed(row: asyncpg.Record) -> ListedSession:
    about = msgspec.json.decode(row["about"] or "{}", type=_About)
    return ListedSession(
        incarnation=row["incarnation"],
        name=row["name"],
        slots=row["slots"],
        running=row["running"],
        pool=pool_of(row["serves"]),
        started_at=row["started_at"],
        lease_seconds=row["lease_seconds"],
        gateway=row["gateway"],
        labels=about.labels,
        client=about.client,
    )

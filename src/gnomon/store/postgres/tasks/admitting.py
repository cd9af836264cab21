"""Quotas at submission: how many of a tenant's tasks may be stored, decided where they are stored.

What is asked and what comes back are columns of the inserting statement: see insert_tasks.sql and
gnomon.admit. Tenants without such quotas are not in them.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg
import msgspec

from gnomon.model.errors import QuotaExceeded
from gnomon.model.fleet.tenant import Pace, Quotas
from gnomon.model.tasks.task import Submission
from gnomon.store.postgres.queries import query

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

# How long a batch waits for others who store for one of its tenants: where others wait for it in
# turn, not long; the tenants are then tried apart.
ALONE_SECONDS = 3.0
TOGETHER_SECONDS = 0.25
_MORE_THAN_ANY = 2**31 - 1

QuotasOf = Callable[[str], Quotas]


def no_quotas(tenant_id: str) -> Quotas:
    """No quotas, for every tenant."""
    del tenant_id
    return _NONE


_NONE = Quotas()


class Asked(msgspec.Struct, frozen=True):
    """The use of quotas that a batch asks for."""

    quotas: Mapping[str, Quotas] = {}  # of tenants that have some, in their order
    wanted: Mapping[str, int] = {}  # how many tasks each of them has in the batch
    whole: bool = False  # all tasks of a tenant, or none
    patience: int = 0  # milliseconds to wait for others who store tasks of the same tenant

    def columns(self, batch: Sequence[Submission], sizes: Sequence[int]) -> list[object]:
        """Parameters of insert_tasks.sql, in its order. `sizes`: of the tasks."""
        most = [q.stored_bytes for q in self.quotas.values()]
        return [self._places(batch), *self.parameters(), most, self._sizes(batch, sizes)]

    def parameters(self) -> list[object]:
        """The parameters of gnomon.admit."""
        return [
            [*self.quotas],
            [self.wanted[tenant] for tenant in self.quotas],
            [q.scheduled_tasks for q in self.quotas.values()],
            [q.submissions_per_second for q in self.quotas.values()],
            self.whole,
            self.patience,
        ]

    def _sizes(self, batch: Sequence[Submission], sizes: Sequence[int]) -> Sequence[int]:
        """The sizes of tasks, those of the first tenant first."""
        if len(self.wanted) == 1:
            return sizes
        own: dict[str, list[int]] = {tenant: [] for tenant in self.quotas}
        for submission, size in zip(batch, sizes, strict=True):
            if submission.tenant_id in own:
                own[submission.tenant_id].append(size)
        return [size for each in own.values() for size in each]

    def _places(self, batch: Sequence[Submission]) -> list[int | None]:
        if not self.quotas:
            return []
        if len(self.wanted) == 1:
            return [*range(1, len(batch) + 1)]
        counts: Counter[str] = Counter()
        places: list[int | None] = []
        for submission in batch:
            counts[submission.tenant_id] += 1
            known = submission.tenant_id in self.quotas
            places.append(counts[submission.tenant_id] if known else None)
        return places


NOTHING = Asked()


def asked(
    batch: Sequence[Submission], quotas_of: QuotasOf, *, whole: bool = False, patient: bool = True
) -> Asked:
    """The question about quotas that storing the batch must ask."""
    tenants = {submission.tenant_id for submission in batch}
    quotas = {tenant: quotas_of(tenant) for tenant in sorted(tenants)}
    quotas = {tenant: each for tenant, each in quotas.items() if _bounds(each)}
    if not quotas:
        return NOTHING
    wanted = Counter(submission.tenant_id for submission in batch)
    seconds = ALONE_SECONDS if patient else TOGETHER_SECONDS
    return Asked(quotas, wanted, whole, round(seconds * 1000))


def _bounds(quotas: Quotas) -> bool:
    asked = (quotas.scheduled_tasks, quotas.submissions_per_second, quotas.stored_bytes)
    return any(quota is not None for quota in asked)


class Admitted(msgspec.Struct, frozen=True):
    """The number of one tenant's tasks that were admitted."""

    quotas: Quotas
    wanted: int
    passed: int
    room: int | None  # for scheduled tasks, before; None where all of them fit, or none was asked
    pace: int | None  # submissions that the last second left, before; None: there is no such quota
    fit: int | None = None  # so many fit into the quota of bytes; None: it was not asked
    stored: int | None = None  # bytes, before; None: there is no such quota

    @classmethod
    def of(cls, question: Asked, row: asyncpg.Record) -> "Admitted":
        tenant = row["tenant_id"]
        quotas, wanted = question.quotas[tenant], question.wanted[tenant]
        bytes_ = row.get("fit"), row.get("stored")
        return cls(quotas, wanted, row["passed"], row["room"], row["pace"], *bytes_)

    def pace_after(self, place: int) -> Pace | None:
        """The submissions left in this second after the tenant's task at this place (from 1)."""
        most = self.quotas.submissions_per_second
        if most is None or self.pace is None:
            return None
        return Pace(most, self.pace - min(place, self.passed))

    def refusal(self, *, whole: bool) -> QuotaExceeded:
        """The refusal of the first task that was not admitted."""
        number = self.wanted if whole else 1
        pace, quota = self.pace_after(self.wanted), self.quotas.scheduled_tasks
        if self.fit is not None and self.passed == self.fit < self.wanted:
            assert self.quotas.stored_bytes is not None, "all fit otherwise"
            assert self.stored is not None, "then it was looked at"
            most = self.quotas.stored_bytes
            return QuotaExceeded("stored_bytes", most, self.stored, number, pace=pace)
        if pace is not None and pace.left < number:
            used = pace.most - pace.left
            return QuotaExceeded(
                "submissions_per_second", pace.most, used, number, pace=pace, wait=1
            )
        assert quota is not None, "one of the two has refused it"
        assert self.room is not None, "then it was looked at as a whole"
        used = quota - self.room + self.passed
        return QuotaExceeded("scheduled_tasks", quota, used, number, pace=pace)


class Stored(msgspec.Struct, frozen=True):
    """The result of storing a batch: the flows of its tasks, and what each tenant was admitted."""

    flows: Mapping[UUID, int]
    admitted: Mapping[str, Admitted] = {}

    @classmethod
    def plain(cls, batch: Sequence[Submission], rows: Sequence[asyncpg.Record]) -> "Stored":
        """Of insert_plain_tasks.sql, which stores all of them."""
        flows: dict[UUID, int] = {}
        for flow, ids in rows:
            flows |= dict.fromkeys([s.id for s in batch] if ids is None else ids, flow)
        return cls(flows)

    @classmethod
    def of(cls, question: Asked, rows: Sequence[asyncpg.Record]) -> "Stored":
        """Of insert_tasks.sql."""
        return cls(
            {row["id"]: row["flow"] for row in rows if row["id"] is not None},
            {row["tenant_id"]: Admitted.of(question, row) for row in rows if row["id"] is None},
        )


async def check_stored(
    connection: "Connection", tenant_id: str, quotas: Quotas, more: int = 0
) -> None:
    """Whether `more` bytes may be stored. Raises QuotaExceeded."""
    most = quotas.stored_bytes
    if most is None:
        return
    stored: int = await connection.fetchval("SELECT gnomon.stored_bytes($1)", tenant_id)
    if stored + more > most:
        raise QuotaExceeded("stored_bytes", most, stored)


async def add_bytes(connection: "Connection", tenant_id: str, more: int) -> None:
    """Count bytes that are stored in this transaction. What they take the place of is not taken
    off: how many bytes that really had, compressed, only a count knows."""
    await connection.execute(query("add_bytes"), tenant_id, more)


async def take_room(
    connection: "Connection",
    tenant_id: str,
    quotas: Quotas,
    number: int,
    *,
    whole: bool = True,
    seconds: float = ALONE_SECONDS,
) -> int:
    """Take room for tasks that are not new but will count again: `number`, or without `whole` as
    much as there is. `seconds`: to wait for others of the tenant. Raises QuotaExceeded where that
    is nothing."""
    if quotas.scheduled_tasks is None:
        return number
    question = _room_alone(tenant_id, quotas, number, whole=whole)
    question = msgspec.structs.replace(question, patience=round(seconds * 1000))
    (row,) = await connection.fetch(query("admit"), *question.parameters())
    admitted = Admitted.of(question, row)
    if admitted.passed == 0:
        raise msgspec.structs.replace(admitted, wanted=1).refusal(whole=whole)
    return admitted.passed


async def leave_room(connection: "Connection", tenant_id: str, quotas: Quotas, number: int) -> None:
    """Give back what was taken and is not needed."""
    if quotas.scheduled_tasks is not None and number > 0:
        await connection.execute(query("leave_room"), tenant_id, number)


async def remember_room(connection: "Connection", tenant_id: str, quotas: Quotas) -> None:
    """Count, so that it is known for a while: what a refusal found out was rolled back with it."""
    question = _room_alone(tenant_id, quotas, _MORE_THAN_ANY, whole=True)
    await connection.fetch(query("admit"), *question.parameters())


def _room_alone(tenant_id: str, quotas: Quotas, number: int, *, whole: bool) -> Asked:
    """About scheduled tasks, and not about the pace of submissions."""
    bare = Quotas(scheduled_tasks=quotas.scheduled_tasks)
    return Asked({tenant_id: bare}, {tenant_id: number}, whole, round(ALONE_SECONDS * 1000))

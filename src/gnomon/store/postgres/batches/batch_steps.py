"""The steps of batches that no settling statement takes: a chore takes them, in chunks."""

from collections.abc import Collection
from uuid import UUID

import asyncpg

from gnomon.model.errors import BrokenInvariant, StoreUnavailable
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import TaskKey
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.workflows.workflow_steps import Taken, alone, columns
from gnomon.workflow.batch import BatchState

CHUNK = 500
_BATCHES = 20  # that are followed in one round
_FIRST = ("", UUID(int=0))
_LOST = "its batch cannot succeed: members of it were cancelled, or have failed for good"


class PostgresBatchSteps:
    """Takes the steps of all tenants' batches."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._followed = _FIRST

    async def take(self, taken: Taken, aside: Collection[UUID] = ()) -> None:
        """Counts what was noted, and a chunk of what follows from changes of batches; but for those
        that are set aside. What fails for one of them fails for it alone. Raises
        StoreUnavailable."""
        await self._database.fetch("expire_batches", CHUNK)
        noted = await self._database.fetch("noted_batches", CHUNK, [*aside])
        if noted:
            await self._count([TaskKey(row["tenant_id"], row["batch_id"]) for row in noted], taken)
        rows = await self._database.fetch("stepped_batches", *self._followed, _BATCHES)
        full = len(rows) == _BATCHES
        self._followed = (rows[-1]["tenant_id"], rows[-1]["id"]) if full else _FIRST
        for row in rows:
            if row["id"] not in aside:
                with alone(TaskKey(row["tenant_id"], row["id"]), taken, "batch"):
                    await self._follow(row, taken)

    async def _count(self, batches: list[TaskKey], taken: Taken) -> None:
        """Count what was noted of all at once; where that fails, of one after the other."""
        if len(batches) == 1:
            with alone(batches[0], taken, "batch"):
                await self._pass(batches, taken)
            return
        try:
            await self._pass(batches, taken)
        except (StoreUnavailable, BrokenInvariant):
            raise
        except Exception:  # noqa: BLE001 - whatever it is: whom it concerns is told below
            for batch in batches:
                await self._count([batch], taken)

    async def _pass(self, batches: list[TaskKey], taken: Taken) -> None:
        tenants, ids = [each.tenant_id for each in batches], [each.id for each in batches]
        taken.add(await self._database.fetch("pass_batches", tenants, ids))
        taken.steps += len(batches)

    async def _follow(self, batch: asyncpg.Record, taken: Taken) -> None:
        tenant_id, batch_id = batch["tenant_id"], batch["id"]
        if batch["state"] == BatchState.CANCELLED:
            await self._cancel(batch, taken)
        ending = [each for each in (batch["on_success"], batch["on_complete"]) if each is not None]
        rows = await self._database.fetch("blocked_callbacks", tenant_id, ending) if ending else []
        if rows:
            why = f"its batch: {batch['reason']}" if batch["reason"] else _LOST
            await self._end(rows, why, taken)
        taken.add(await self._database.fetch("pass_batches", [tenant_id], [batch_id]))
        await self._database.fetch("settle_batch", tenant_id, batch_id)

    async def _cancel(self, batch: asyncpg.Record, taken: Taken) -> None:
        tenant_id = batch["tenant_id"]
        rows = await self._database.fetch("unended_members", tenant_id, batch["id"], CHUNK)
        running = [row["task_id"] for row in rows if row["state"] == State.RUNNING]
        others = [row for row in rows if row["state"] != State.RUNNING]
        if running:
            asked = await self._database.fetch("ask_nodes_to_end", tenant_id, running)
            taken.steps += len(asked)
            if batch["interrupts"]:
                taken.cancels += [TaskKey(tenant_id, row["id"]) for row in asked]
        if others:
            await self._end(others, f"its batch: {batch['reason']}", taken)

    async def _end(self, rows: list[asyncpg.Record], reason: str, taken: Taken) -> None:
        found = await self._database.fetch("skip_nodes", *columns(rows), [reason] * len(rows))
        taken.steps += sum(row["ended"] for row in found)

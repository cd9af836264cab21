"""Bulk operations for tests: begun over the API, and done chunk by chunk, as a node would."""

from typing import Any
from uuid import UUID

from tests.integration.api_calls import Api, call

from gnomon.model.fleet.tenant import Quotas
from gnomon.model.targets.allow_list import EVERYTHING, AllowList
from gnomon.store.ports.work.bulk import BulkKey
from gnomon.store.postgres.bulk.bulk_store import CollectedHints
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.usecases.tasks.bulk_operations import run_chunk

BULK = "/api/v1/bulk-operations"


class Stepper:
    """Does the chunks of operations by hand."""

    def __init__(
        self, database: Database, allow: AllowList = EVERYTHING, **quotas: int | None
    ) -> None:
        given = Quotas(**quotas)
        self._store = PostgresTasks(database, CollectedHints(database), 3600.0, lambda _: given)
        self._allow = allow

    async def chunk(self, operation: Any, most: int = 500, tenant: str = "default") -> bool:
        key = BulkKey(tenant, UUID(operation["operation_id"]))
        return await run_chunk(self._store, lambda _: self._allow, key, most)

    async def finish(self, operation: Any) -> None:
        while await self.chunk(operation):
            pass

    async def done(self, api: Api, body: dict[str, Any], **options: Any) -> Any:
        """A whole operation: how it ended."""
        begun = await call(api, "POST", BULK, 202, body, **options)
        await self.finish(begun)
        return await call(api, "GET", f"{BULK}/{begun['operation_id']}", 200, **options)

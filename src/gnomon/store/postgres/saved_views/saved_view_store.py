"""Saved views on PostgreSQL."""

from collections.abc import Sequence

import asyncpg

from gnomon.model.saved_view_errors import SavedViewNotFound, TooManySavedViews
from gnomon.store.ports.insight.saved_views import MOST_SAVED_VIEWS, SavedView
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query


class PostgresSavedViews:
    """Stores the saved views of tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, tenant_id: str) -> list[SavedView]:
        """All of a tenant, by name."""
        async with self._database.scoped(tenant_id) as connection:
            rows = await connection.fetch(query("list_saved_views"), tenant_id)
        return [_view_of(row) for row in rows]

    async def put(
        self, tenant_id: str, name: str, chosen: bytes, columns: Sequence[str], by: str | None
    ) -> tuple[SavedView, bool]:
        """Save one, in the place of one of its name; gives also whether it is new. Raises
        TooManySavedViews."""
        async with self._database.scoped(tenant_id) as connection:
            # Those who add to the same tenant count one after the other.
            await connection.execute(query("lock_saved_views"), tenant_id)
            row = await connection.fetchrow(
                query("put_saved_view"),
                tenant_id,
                name,
                chosen.decode(),
                columns,
                by,
                MOST_SAVED_VIEWS,
            )
        if row is None:
            raise TooManySavedViews(MOST_SAVED_VIEWS)
        return _view_of(row), row["created"]

    async def delete(self, tenant_id: str, name: str) -> None:
        """Forget one. Raises SavedViewNotFound."""
        async with self._database.scoped(tenant_id) as connection:
            row = await connection.fetchrow(query("delete_saved_view"), tenant_id, name)
        if row is None:
            raise SavedViewNotFound(name)


def _view_of(row: asyncpg.Record) -> SavedView:
    return SavedView(
        name=row["name"],
        filter=row["filter"].encode(),
        columns=tuple(row["columns"]),
        created_by=row["created_by"],
        created_at=row["created_at"],
    )

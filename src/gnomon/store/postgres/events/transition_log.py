"""Reads transitions in the order of the transactions that appended them, up to the first that is
still under way: none that is committed late is missed, and no row is touched after its insert."""

from collections.abc import Sequence

import asyncpg
import msgspec

from gnomon.model.insight.transition import StreamedTransition, TransitionPlace
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.rows import readable, transition_of


class TransitionSpan(msgspec.Struct, frozen=True):
    """Of the transactions up to `forgotten` some transitions were removed; those before `horizon`
    have ended; `ahead` has not begun."""

    forgotten: int
    horizon: int
    ahead: int


class StreamedTransitions(msgspec.Struct, frozen=True):
    """The next transitions of one reader, and the place that was reached; None: some after its
    place are gone."""

    transitions: Sequence[StreamedTransition]
    reached: TransitionPlace | None


class PostgresTransitionLog:
    """The transitions of tenants, for streams."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def span(self) -> TransitionSpan:
        """Whoever wants what happens from now on begins at the horizon."""
        row = await self._database.fetchrow("transition_span")
        assert row is not None, "the row is made with the table"
        return TransitionSpan(row["forgotten"], row["horizon"], row["ahead"])

    async def read(
        self, readers: Sequence[tuple[str, TransitionPlace]], limit: int
    ) -> list[StreamedTransitions]:
        """The next transitions of each reader, who is at a place of a tenant; at most `limit` of
        each."""
        rows = await self._database.fetch(
            "read_transitions",
            [tenant_id for tenant_id, _ in readers],
            [place.xact for _, place in readers],
            [place.place for _, place in readers],
            limit,
        )
        found: list[list[asyncpg.Record]] = [[] for _ in readers]
        for row in rows:
            found[row["reader"] - 1].append(row)
        return [
            _page(of_one, place, limit) for of_one, (_, place) in zip(found, readers, strict=True)
        ]


def _page(rows: list[asyncpg.Record], place: TransitionPlace, limit: int) -> StreamedTransitions:
    if 0 < rows[0]["forgotten"] >= place.xact:
        return StreamedTransitions((), None)
    known = [row for row in rows if row["task_id"] is not None]
    reached = (
        _place(known[-1])
        if len(known) == limit
        else max(place, TransitionPlace(rows[0]["horizon"]))
    )
    return StreamedTransitions(readable(known, _streamed, "transition"), reached)


def _place(row: asyncpg.Record) -> TransitionPlace:
    return TransitionPlace(row["xact"], row["place"])


def _streamed(row: asyncpg.Record) -> StreamedTransition:
    return StreamedTransition(
        tenant_id=row["tenant_id"],
        task_id=row["task_id"],
        task_type=row["task_type"] or "",
        position=_place(row),
        transition=transition_of(row),
    )

"""Ids as people give them: whole, or only their beginning where that tells them apart."""

from collections.abc import AsyncIterable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from gnomon.cli.shared.output import CommandFailed, moment
from gnomon.model.ids import ids_with_prefix

if TYPE_CHECKING:
    from gnomon.client.client import DocumentClient

CANDIDATES = 5
_LISTS = {
    "task": "tasks list",
    "key": "keys list",
    "webhook secret": "secrets list",
    "event": "events",
    "workflow run": "workflows runs list",
    "batch": "batches list",
}


async def task_id_of(client: "DocumentClient", given: str) -> str:
    """The id of the one task whose id begins so. CommandFailed where there is none, or several."""
    if (whole := _whole(given)) is not None:
        return whole
    _check(given, "task")
    digits = given.strip().replace("-", "")
    found = [task async for task in client.list_tasks(id_prefix=digits, limit=CANDIDATES + 1)]
    told = [f"{t['task_id']}  {t['status']}  {t['task_type']}" for t in found]
    return _only(given, "task", [task["task_id"] for task in found], told)


async def id_among(
    given: str, what: str, listed: "AsyncIterable[Any] | Sequence[Any]", member: str
) -> str:
    """The id of the one item of a list, which is read to its end, whose `member` begins so."""
    if (whole := _whole(given)) is not None:
        return whole
    first, last = _check(given, what)
    items = listed if isinstance(listed, Sequence) else [item async for item in listed]
    found = [item for item in items if first <= UUID(item[member]) <= last]
    told = [
        "  ".join(part for part in (i[member], i.get("name"), moment(i.get("created_at"))) if part)
        for i in found
    ]
    return _only(given, what, [item[member] for item in found], told)


def _whole(given: str) -> str | None:
    try:
        return str(UUID(given)) if len(given.replace("-", "")) == 32 else None
    except ValueError:
        return None


def _check(given: str, what: str) -> tuple[UUID, UUID]:
    try:
        return ids_with_prefix(given.strip())
    except ValueError:
        raise typer.BadParameter(
            f"{given!r} is no id of a {what}, nor the beginning of one; "
            f"`gnomon {_LISTS[what]}` shows them"
        ) from None


def _only(given: str, what: str, ids: Sequence[str], told: Sequence[str]) -> str:
    if len(ids) == 1:
        return ids[0]
    if not ids:
        raise CommandFailed(f"no {what} has an id that begins with {given}")
    lines = "".join(f"\n  {each}" for each in told[:CANDIDATES])
    more = "\n  …" if len(ids) > CANDIDATES else ""
    raise CommandFailed(f"more than one {what} has an id that begins with {given}:{lines}{more}")

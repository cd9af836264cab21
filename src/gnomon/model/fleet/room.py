"""Whether a database has room for new work, by what was measured of it. Pure.

New work is refused while there is still room for what goes on: executions that end, cancellations,
PostgreSQL's own log. Once it is refused, it stays so until there is clearly more room again.
"""

import msgspec

from gnomon.model.errors import GnomonError

_SHARE = 10  # the reserve is never more than this part of a small disk
_AGAIN = 1.25  # times the reserve must be free again
_AGAIN_BYTES = 0.98  # of what the database may have must be left behind again


class DatabaseFull(GnomonError):
    """The database has too little room for new work. Why is for its operator to know."""

    def __init__(self) -> None:
        super().__init__(
            "the database has too little room for new work; what is there can be read, cancelled "
            "and deleted, and goes on. `gnomon doctor` says more to the operator"
        )


class Measured(msgspec.Struct, frozen=True):
    """Bytes; None where they cannot be known."""

    free: int | None = None  # on the disk of PostgreSQL
    disk: int | None = None  # its size
    database: int | None = None  # the size of the database


class Bounds(msgspec.Struct, frozen=True):
    """Bytes that must stay free, and bytes that the database may have (None: no bound)."""

    reserve: int
    most: int | None = None


def no_room(found: Measured, bounds: Bounds, *, refusing: bool) -> str | None:
    """The reason to refuse new work; None where there is none."""
    if found.free is not None and found.disk is not None:
        reserve = min(bounds.reserve, found.disk // _SHARE)
        if found.free < reserve * (_AGAIN if refusing else 1):
            return (
                f"{found.free} bytes are free on the disk of PostgreSQL, of which {reserve} stay "
                "free (database.disk_reserve_bytes)"
            )
    if found.database is None or bounds.most is None:
        return None
    if found.database < bounds.most * (_AGAIN_BYTES if refusing else 1):
        return None
    return (
        f"the database has {found.database} bytes, and may have {bounds.most} (database.max_bytes)"
    )

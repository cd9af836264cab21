"""A look over the whole installation. Pure."""

from collections.abc import Mapping

import msgspec

from gnomon.model.errors import StoreError
from gnomon.model.tasks.priority import Lane


class InstallationOverview(msgspec.Struct, kw_only=True):
    """What was found; None: it could not be asked."""

    at: float  # seconds since the epoch, by the database's clock
    ready: int | None = None
    scheduled: int | None = None
    running: int | None = None
    dead: int | None = None
    batches_open: int | None = None
    batches_ended: int | None = None  # that are kept
    feed_backlog: int | None = None  # outcomes that are not published
    feeds_behind: int | None = (
        None  # feeds whose first outcome has waited for a minute, or with a gap
    )
    oldest_due: Mapping[Lane, float] | None = None  # seconds; 0 where nothing is due
    hottest_shard: float | None = None  # its due tasks against the mean of all; 0: nothing is due
    limiter_use: float | None = None  # the highest of any, from 0 to 1
    limiters_full: int | None = None
    partitions_ahead: int | None = None  # days from today on
    replication_lag: float | None = None  # seconds; also None without a standby
    database_bytes: int | None = None
    chores_unheld: Mapping[str, float] | None = None  # seconds; 0 while one is held
    missing: dict[str, StoreError] = {}  # the parts that could not be asked, and why

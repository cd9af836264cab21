"""Section `database`: where the data is, and how much of it is kept."""

from typing import ClassVar

from gnomon.settings.section import Section


class DatabaseSettings(Section, frozen=True):
    SECTION: ClassVar[str] = "database"

    url: str | None = None  # your own server; None runs the embedded one
    direct_url: str | None = None  # the same database, past a pooler in `url`
    connections: int = 8  # of each process
    handler_url: str | None = None  # the same database, as the role of transactional handlers
    handler_connections: int = 10  # of each process that runs them
    data_dir: str = ".gnomon"  # of the embedded server
    retention_days: float = 30.0  # how long finished tasks are kept
    activity_days: float = 30.0  # how long sums of activity by the hour are kept
    # Stays free on PostgreSQL's disk, where that is this machine's: with less, new work is refused.
    # Never more than a tenth of the disk.
    disk_reserve_bytes: int = 1024**3
    max_bytes: int | None = None  # with more, new work is refused as well

    def __post_init__(self) -> None:
        self.require_at_least_one("connections", "handler_connections")
        self.require_not_negative("retention_days", "activity_days", "disk_reserve_bytes")
        bounded = self.max_bytes is None or self.max_bytes >= 1
        self.require("max_bytes", "be at least 1; leave it out for no bound", holds=bounded)
        known = self.direct_url is None or self.url is not None
        self.require("direct_url", "come with database.url, the way through a pooler", holds=known)

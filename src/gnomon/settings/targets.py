"""Section `targets`: the addresses that tasks may call, and how much is called at once."""

import os
from typing import ClassVar

from gnomon.settings.section import Section


class TargetSettings(Section, frozen=True):
    SECTION: ClassVar[str] = "targets"

    threads: int = 32  # for handlers that are not async
    processes: int | None = None  # for handlers with process=True; None: one for each core
    quarantine_processes: int = 4  # children of a node for tasks that may have killed one
    webhook_secret: str | None = None  # whsec_...; the first one of the tenant `default`
    connections_per_host: int = 1000
    allow: tuple[str, ...] = ()  # private networks that webhooks may reach, as CIDR

    def __post_init__(self) -> None:
        self.require_at_least_one("threads", "quarantine_processes", "connections_per_host")
        self.require(
            "processes", "be at least 1", holds=self.processes is None or self.processes > 0
        )
        self.require_networks("allow")

    @property
    def most_processes(self) -> int:
        """How many children run handlers with process=True."""
        return self.processes or os.cpu_count() or 1

"""Section `targets`: the functions and addresses that tasks may call, and how many at once."""

from typing import ClassVar

import msgspec

from gnomon.settings.section import Section


class TargetSettings(Section, frozen=True):
    SECTION: ClassVar[str] = "targets"

    # Name -> "package.module:function", callable as python targets
    functions: dict[str, str] = msgspec.field(default_factory=dict)
    threads: int = 32  # for Python functions that are not async
    quarantine_processes: int = 4  # children of a node for tasks that may have killed one
    webhook_secret: str | None = None  # whsec_...; the first one of the tenant `default`
    connections_per_host: int = 1000
    allow: tuple[str, ...] = ()  # private networks that webhooks may reach, as CIDR

    def __post_init__(self) -> None:
        self.require_at_least_one("threads", "quarantine_processes", "connections_per_host")
        self.require_networks("allow")

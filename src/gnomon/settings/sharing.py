"""Section `sharing`: what priorities and tenants get of the nodes, and quotas by plan."""

from typing import ClassVar

import msgspec

from gnomon.settings.node import LANES
from gnomon.settings.section import Section


class SharingSettings(Section, frozen=True):
    SECTION: ClassVar[str] = "sharing"

    lane_weights: dict[str, int] = msgspec.field(
        default_factory=lambda: dict(zip(LANES, (4, 3, 2, 1), strict=True))
    )
    aging_seconds: float = 60.0  # no task waits longer because of its priority
    tenant_share: float = 0.9  # of the slots, for any one tenant where there are others
    max_ready_tasks: int | None = None  # due and waiting in all; over it, new ones are refused
    # Name -> quotas, beside the built-in ones
    plans: dict[str, dict[str, float | None]] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.require_positive("aging_seconds")
        if self.max_ready_tasks is not None:
            self.require_at_least_one("max_ready_tasks")
        complete = set(self.lane_weights) == set(LANES) and min(self.lane_weights.values()) >= 1
        self.require("lane_weights", f"give each of {', '.join(LANES)} at least 1", holds=complete)
        part = 0 < self.tenant_share <= 1
        self.require("tenant_share", "be more than 0 and at most 1", holds=part)

"""Section `gateway`: the sessions of remote workers."""

from typing import ClassVar

from gnomon.settings.section import Section

_SHORTEST_LEASE = 3.0


class GatewaySettings(Section, frozen=True):
    SECTION: ClassVar[str] = "gateway"

    lease_seconds: float = 10.0  # without a beat for so long, a session is lost with its tasks
    poll_seconds: float = 20.0  # that a poll waits at most; a proxy must not cut it off before
    tenant_sessions: int = 5_000  # of one tenant at once
    key_sessions: int = 5_000  # of one key at once
    answer_bytes: int = 4 * 1024 * 1024  # of payloads in one answer, but for the first of them

    def __post_init__(self) -> None:
        self.require_at_least_one("tenant_sessions", "key_sessions", "answer_bytes")
        self.require_positive("poll_seconds")
        rule = f"be at least {_SHORTEST_LEASE:g}"
        self.require("lease_seconds", rule, holds=_SHORTEST_LEASE <= self.lease_seconds < 3600)
        self.require("poll_seconds", "be at most 20", holds=self.poll_seconds <= 20)

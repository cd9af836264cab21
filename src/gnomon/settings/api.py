"""Section `api`: where the API listens, and what one client may take of it."""

from typing import ClassVar

from gnomon.settings.section import Section

# What a request may hold besides its payload.
OVERHEAD_BYTES = 64 * 1024
_LEAST_BODY_MEMORY = 2 * 1024 * 1024
_FORWARDED_HEADERS = ("x-forwarded-for", "forwarded")


class ApiSettings(Section, frozen=True):
    SECTION: ClassVar[str] = "api"

    host: str = "127.0.0.1"
    port: int = 8080
    key: str | None = None  # sent by the commands that use the API
    max_payload_bytes: int = 256 * 1024
    max_batch_bytes: int = 32 * 1024 * 1024
    max_run_nodes: int = 100_000  # of a workflow run, with elements and spawned ones
    connections: int = 10_000  # open at once; fewer where fewer files may be open
    idle_seconds: float = 75.0  # without a request, after which a connection is closed
    body_seconds: float = 10.0  # for a body, and for each MiB of a large one, to arrive
    body_memory_bytes: int = 128 * 1024 * 1024  # for all bodies of requests under way
    # Of one address, and of one key, in each process: about half of what a process answers.
    address_requests_per_second: float = 3_000.0
    key_requests_per_second: float = 3_000.0
    address_connections: int = 1_000  # of one address, open at once
    unlimited_addresses: tuple[str, ...] = ("127.0.0.0/8", "::1/128")  # networks, as CIDR
    trusted_proxies: tuple[str, ...] = ()  # networks; in their requests a header says who asks
    forwarded_header: str = "x-forwarded-for"  # that header, which they must set
    idempotency_seconds: float = 24 * 3600.0

    def __post_init__(self) -> None:
        self.require_at_least_one(
            "connections",
            "max_run_nodes",
            "idle_seconds",  # the server knows no shorter time
            "address_connections",
            "address_requests_per_second",
            "key_requests_per_second",
        )
        self.require_positive("body_seconds")
        self.require_not_negative("max_payload_bytes", "max_batch_bytes", "idempotency_seconds")
        self.require_networks("unlimited_addresses", "trusted_proxies")
        in_range = 0 <= self.port <= 65535
        self.require("port", "be between 0 and 65535 (0 picks a free one)", holds=in_range)
        key = self.key or ""  # as the client has it: else an error of the HTTP library shows it
        sendable = key.isascii() and key.isprintable() and " " not in key
        self.require("key", "be printable ASCII without spaces or line ends", holds=sendable)
        known = self.forwarded_header.lower() in _FORWARDED_HEADERS
        rule = f"be one of {', '.join(_FORWARDED_HEADERS)}"
        self.require("forwarded_header", rule, holds=known)
        self._check_body_memory()

    @property
    def largest_body_bytes(self) -> int:
        """The largest body of any request."""
        return max(self.max_batch_bytes, self.max_payload_bytes + OVERHEAD_BYTES)

    def _check_body_memory(self) -> None:
        least = max(2 * self.largest_body_bytes, _LEAST_BODY_MEMORY)
        rule = (
            f"be at least {least}, twice the largest body (api.max_batch_bytes): "
            "else one request could keep all others out"
        )
        self.require("body_memory_bytes", rule, holds=self.body_memory_bytes >= least)

"""Every knob of Gnomon, in one flat tree.

A setting comes from, in rising order: its default here, `gnomon.toml`, the environment
(`GNOMON_SLOTS` sets `slots`; `GNOMON_WEBHOOK_SECRET_FILE` reads `webhook_secret` from a file).
`DATABASE_URL` is read without the prefix too, because every platform sets it so.
"""

import difflib
import math
import os
import stat
import tomllib
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

PREFIX = "GNOMON_"
DEFAULT_FILE = "gnomon.toml"

_AT_LEAST_ONE = (
    "slots",
    "batch",
    "window",
    "database_connections",
    "threads",
    "quarantine_processes",
    "connections_per_host",
    "node_lease_seconds",
    "payload_memory_bytes",
    "api_connections",
    "idle_seconds",  # the server knows no shorter time
    "address_connections",
    "address_requests_per_second",
    "key_requests_per_second",
)
_POSITIVE = (
    "horizon_seconds",
    "scan_seconds",  # a loop without pause at 0
    "plan_seconds",
    "plan_ahead_seconds",
    "sweep_seconds",
    "steal_seconds",
    "aging_seconds",
    "jwt_keep_seconds",
    "body_seconds",
    "timeout_grace_seconds",  # half of it is all the time that a claimed task may wait for a slot
)
_NOT_NEGATIVE = (
    "retention_days",
    "disk_reserve_bytes",
    "max_payload_bytes",
    "max_batch_bytes",
    "idempotency_seconds",
    "prefetch",
    "drain_seconds",
)
# What a request may hold besides its payload.
OVERHEAD_BYTES = 64 * 1024
_LEAST_BODY_MEMORY = 2 * 1024 * 1024
# What nobody else on the machine may read, and no function that a node runs needs.
_SECRETS = ("api_key", "database_url", "direct_database_url", "webhook_secret")
_LANES = ("CRITICAL", "HIGH", "MEDIUM", "LOW")
_LOG_FORMATS = ("auto", "console", "json")
_FORWARDED_HEADERS = ("x-forwarded-for", "forwarded")
_NETWORKS = ("targets_allow", "unlimited_addresses", "trusted_proxies")


class SettingsError(ValueError):
    """A setting that cannot be used. The message names it and says what would be right."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of one process. Durations are in seconds."""

    # Where the data is
    database_url: str | None = None  # your own server; None runs the embedded one
    direct_database_url: str | None = None  # the same one, past a pooler in database_url
    data_dir: str = ".gnomon"  # of the embedded server
    retention_days: float = 30.0  # how long finished tasks are kept
    # Stays free on PostgreSQL's disk, where that is this machine's: with less, new work is refused.
    # Never more than a tenth of the disk.
    disk_reserve_bytes: int = 1024**3
    database_most_bytes: int | None = None  # with more, new work is refused as well

    # The API
    api_host: str = "127.0.0.1"
    api_port: int = 8080
    max_payload_bytes: int = 256 * 1024
    max_batch_bytes: int = 32 * 1024 * 1024
    api_connections: int = 10_000  # open at once; fewer where fewer files may be open
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
    database_connections: int = 8  # of each process

    # Who may use it
    # Without it only loopback is served, as the tenant `default`. None: as the database says.
    authentication: bool | None = None
    jwt_issuer: str | None = None  # tokens are accepted where all of these three are set
    jwt_audience: str | None = None
    jwt_jwks: str | None = None  # a file, or an https URL
    jwt_keep_seconds: float = 24 * 3600.0  # the last keys of a URL that does not answer
    jwt_algorithms: tuple[str, ...] = ("RS256", "ES256", "EdDSA")
    jwt_tenant_claim: str = "tenant"
    jwt_roles_claim: str = "roles"
    plans: dict[str, dict[str, float | None]] = {}  # name -> quotas, beside the built-in ones
    api_key: str | None = None  # what the commands that use the API send

    # The node
    node_name: str | None = None  # None: host name and process id
    slots: int = 1000  # tasks that run at once in one node
    prefetch: int = 1000  # claimed beyond the free slots, so that a slot never waits for a claim
    batch: int = 1000  # tasks in one claim or settling statement
    payload_memory_bytes: int = 64 * 1024 * 1024  # for large payloads of tasks that run
    horizon_seconds: float = 15.0  # how far ahead due work is read into memory
    window: int = 40_000  # entries held in memory at most, whatever the backlog
    scan_seconds: float = 0.5  # between scans ahead; hints make new work faster than that
    plan_seconds: float = 1.0  # between looks for cron jobs that fire soon
    plan_ahead_seconds: float = 10.0  # how long before its time a fire is planned
    sweep_seconds: float = 1.0  # between looks for lost work
    steal_seconds: float = 1.0  # how late others' tasks are before an idle node takes them
    node_lease_seconds: float = 10.0
    drain_seconds: float = 20.0
    timeout_grace_seconds: float = 10.0  # after a task's timeout, before others take it over

    # Who goes first
    lane_weights: dict[str, int] = msgspec.field(
        default_factory=lambda: dict(zip(_LANES, (4, 3, 2, 1), strict=True))
    )
    aging_seconds: float = 60.0  # no task waits longer because of its priority
    critical_slots: int | None = None  # kept for CRITICAL tasks; None: one in twenty
    tenant_share: float = 0.9  # of the slots, for any one tenant where there are others
    serve_tenants: tuple[str, ...] = ()  # a pool: this node runs only what is in all four lists,
    serve_types: tuple[str, ...] = ()  # of which an empty one holds everything
    serve_queues: tuple[str, ...] = ()
    serve_lanes: tuple[str, ...] = ()

    # Targets
    functions: dict[str, str] = {}  # name -> "package.module:function", callable as python targets
    threads: int = 32  # for Python functions that are not async
    quarantine_processes: int = 4  # children of a node for tasks that may have killed one
    webhook_secret: str | None = None  # whsec_...; the first one of the tenant `default`
    connections_per_host: int = 1000
    targets_allow: tuple[str, ...] = ()  # private networks that webhooks may reach, as CIDR

    # Output
    log_format: str = "auto"  # json, console, or auto: console on a terminal
    log_level: str = "info"
    metrics_host: str = "127.0.0.1"
    metrics_port: int = 0  # of a node; 0: none. The API serves its own beside its resources

    def __post_init__(self) -> None:
        for name in _AT_LEAST_ONE:
            if not 1 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be at least 1")
        for name in _POSITIVE:
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be a positive number")
        for name in _NOT_NEGATIVE:
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must not be negative")
        if self.database_most_bytes is not None and self.database_most_bytes < 1:
            raise ValueError("database_most_bytes must be at least 1; leave it out for no bound")
        if self.direct_database_url is not None and self.database_url is None:
            raise ValueError("direct_database_url is another way to database_url: set both")
        self._check_lanes()
        self._check_networks()
        self._check_bodies()
        if not 0 < self.tenant_share <= 1:
            raise ValueError("tenant_share must be more than 0 and at most 1")
        if self.critical_slots is not None and not 0 <= self.critical_slots < self.slots:
            raise ValueError("critical_slots must be at least 0 and less than slots")
        if self.log_format not in _LOG_FORMATS:
            raise ValueError(f"log_format must be one of {', '.join(_LOG_FORMATS)}")
        if not 0 <= self.api_port <= 65535:
            raise ValueError("api_port must be between 0 and 65535 (0 picks a free one)")
        if not 0 <= self.metrics_port <= 65535:
            raise ValueError("metrics_port must be between 0 and 65535 (0 serves none)")

    @property
    def largest_body_bytes(self) -> int:
        """The largest body of any request."""
        return max(self.max_batch_bytes, self.max_payload_bytes + OVERHEAD_BYTES)

    @property
    def reserved_slots(self) -> int:
        """How many slots are kept for CRITICAL tasks."""
        if self.critical_slots is not None:
            return self.critical_slots
        return max(1, self.slots // 20) if self.slots > 1 else 0

    def _check_lanes(self) -> None:
        if set(self.lane_weights) != set(_LANES) or min(self.lane_weights.values()) < 1:
            raise ValueError(f"lane_weights must give each of {', '.join(_LANES)} at least 1")
        unknown = set(self.serve_lanes) - set(_LANES)
        if unknown:
            raise ValueError(f"serve_lanes must be among {', '.join(_LANES)}, not {unknown.pop()}")

    def _check_bodies(self) -> None:
        least = max(2 * self.largest_body_bytes, _LEAST_BODY_MEMORY)
        if self.body_memory_bytes < least:
            raise ValueError(
                f"body_memory_bytes must be at least {least}, twice the largest body "
                "(max_batch_bytes): else one request could keep all others out"
            )

    def _check_networks(self) -> None:
        for name in _NETWORKS:
            for text in getattr(self, name):
                try:
                    ip_network(text)
                except ValueError as error:
                    detail = f"{name} must be networks such as 10.1.0.0/16: {error}"
                    raise ValueError(detail) from error
        if self.forwarded_header.lower() not in _FORWARDED_HEADERS:
            raise ValueError(f"forwarded_header must be one of {', '.join(_FORWARDED_HEADERS)}")


def load(environ: Mapping[str, str], file: Path | None = None) -> Settings:
    """Read the settings. `file` None means `gnomon.toml` where it exists."""
    values: dict[str, Any] = {}
    if file is not None or Path(DEFAULT_FILE).exists():
        values |= _from_file(file or Path(DEFAULT_FILE))
    values |= _from_environ(environ)
    try:
        return msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"a setting cannot be used: {error}") from error


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """`GNOMON_*` variables that set nothing: usually a typing mistake, never an error."""
    known = set(Settings.__struct_fields__)
    names = (name for name in environ if name.startswith(PREFIX))
    return sorted(n for n in names if _field_of(n.removesuffix("_FILE")) not in known)


def secret_variables() -> list[str]:
    """The variables that set secrets. Not `DATABASE_URL`: it is the platform's, and others on it
    may live from it."""
    names = [PREFIX + name.upper() for name in _SECRETS]
    return [*names, *(f"{name}_FILE" for name in names)]


def _field_of(variable: str) -> str:
    return variable.removeprefix(PREFIX).lower()


def _from_file(file: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} is not valid TOML: {error}") from error
    for name in values:
        if name not in Settings.__struct_fields__:
            near = difflib.get_close_matches(name, Settings.__struct_fields__, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise SettingsError(f"{file}: unknown setting {name!r}{hint}")
    held = [name for name in _SECRETS if name in values and _is_secret(name, str(values[name]))]
    if held and _open_to_all(file):
        raise SettingsError(
            f"{file} holds a secret ({', '.join(held)}) and can be read by every user of this "
            f"machine: chmod o-r {file}, or set {PREFIX}{held[0].upper()}_FILE instead"
        )
    return values


def _is_secret(name: str, value: str) -> bool:
    if not name.endswith("database_url"):
        return True
    try:
        parts = urlsplit(value)
        return parts.password is not None or "password" in parse_qs(parts.query)
    except ValueError:
        return True


def _open_to_all(file: Path) -> bool:
    """Whether anybody can read it, as far as modes tell: itself, and every folder on the way."""
    if os.name == "nt":
        return False
    way = file.resolve()
    anybody = way.stat().st_mode & stat.S_IROTH != 0
    return anybody and all(folder.stat().st_mode & stat.S_IXOTH for folder in way.parents)


def _from_environ(environ: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(Settings):
        variable = PREFIX + field.name.upper()
        text = _variable(environ, variable)
        if not text and field.name == "database_url":
            text = _variable(environ, "DATABASE_URL")
        if text:  # an empty variable is how compose files and unit files leave one unset
            values[field.name] = _parsed(field, variable, text)
    return values


def _parsed(field: msgspec.structs.FieldInfo, variable: str, text: str) -> object:
    """Mappings are name=value pairs and lists are values, separated by commas; plans are JSON."""
    if field.name == "plans":
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise SettingsError(f"{variable} must be JSON: {error}") from error
    if field.name in ("functions", "lane_weights"):
        return _mapping(variable, text)
    if isinstance(field.default, tuple):
        return [value.strip() for value in text.split(",") if value.strip()]
    return text


def _variable(environ: Mapping[str, str], name: str) -> str | None:
    path = environ.get(f"{name}_FILE")
    if environ.get(name) or not path:
        return environ.get(name)
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingsError(f"{name}_FILE names {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{name}_FILE names {path}, which is not text") from error


def _mapping(variable: str, text: str) -> dict[str, str]:
    """`name=value` pairs, separated by commas."""
    pairs = [pair.strip() for pair in text.split(",") if pair.strip()]
    if not all("=" in pair for pair in pairs):
        raise SettingsError(f"{variable} must be name=value, name=value, …; got {text!r}")
    split = (pair.split("=", 1) for pair in pairs)
    return {name.strip(): function.strip() for name, function in split}

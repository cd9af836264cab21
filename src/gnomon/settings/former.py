"""Names that settings and variables had before, and settings that are gone. They set nothing:
whoever uses one is told what to write instead."""

_MOVED = {
    "database": ("data_dir", "retention_days", "disk_reserve_bytes"),
    "api": (
        "max_payload_bytes",
        "max_batch_bytes",
        "idle_seconds",
        "body_seconds",
        "body_memory_bytes",
        "address_requests_per_second",
        "key_requests_per_second",
        "address_connections",
        "unlimited_addresses",
        "trusted_proxies",
        "forwarded_header",
        "idempotency_seconds",
    ),
    "auth": (
        "jwt_issuer",
        "jwt_audience",
        "jwt_jwks",
        "jwt_keep_seconds",
        "jwt_algorithms",
        "jwt_tenant_claim",
        "jwt_roles_claim",
    ),
    "node": (
        "slots",
        "critical_slots",
        "prefetch",
        "batch",
        "payload_memory_bytes",
        "horizon_seconds",
        "window",
        "scan_seconds",
        "plan_seconds",
        "plan_ahead_seconds",
        "sweep_seconds",
        "steal_seconds",
        "drain_seconds",
        "timeout_grace_seconds",
        "serve_tenants",
        "serve_types",
        "serve_queues",
        "serve_lanes",
    ),
    "sharing": ("lane_weights", "aging_seconds", "tenant_share", "plans"),
    "targets": (
        "threads",
        "quarantine_processes",
        "webhook_secret",
        "connections_per_host",
    ),
    "output": ("log_format", "log_level", "metrics_host", "metrics_port"),
}

_HANDLERS = (
    "functions are the handlers of an app: name the app in node.app, such as shop:app, or start "
    "`gnomon worker shop:app`"
)

# Section and name (none: before there were sections), and what to do instead.
REMOVED: dict[tuple[str, str], str] = {
    ("", "functions"): _HANDLERS,
    ("targets", "functions"): _HANDLERS,
}

FORMER: dict[str, tuple[str, str]] = {
    "database_url": ("database", "url"),
    "direct_database_url": ("database", "direct_url"),
    "database_connections": ("database", "connections"),
    "database_most_bytes": ("database", "max_bytes"),
    "api_host": ("api", "host"),
    "api_port": ("api", "port"),
    "api_key": ("api", "key"),
    "api_connections": ("api", "connections"),
    "authentication": ("auth", "enabled"),
    "node_name": ("node", "name"),
    "node_lease_seconds": ("node", "lease_seconds"),
    "targets_allow": ("targets", "allow"),
    **{name: (section, name) for section, names in _MOVED.items() for name in names},
}

# Variables that are no settings.
FORMER_VARIABLES = {"GNOMON_API_URL": "GNOMON_URL"}

"""The database: connections, statements, size, partitions, replication, and the chores."""

from deploy.monitoring.expressions import mean, quantiles, rate
from deploy.monitoring.panels import Dashboard, Panel, Row

NOW = Row(
    "Now",
    [
        Panel(
            "Size",
            "Of the whole database.",
            "bytes",
            {"size": "max(gnomon_database_bytes)"},
            "stat",
            5,
        ),
        Panel(
            "New work refused",
            "1 while the disk is nearly full.",
            "short",
            {"no room": "max(gnomon_no_room)"},
            "stat",
            5,
            steps=(1, 1),
        ),
        Panel(
            "Days of partitions ahead",
            "Of the table that has the fewest. Seven or more are normal.",
            "short",
            {"days": "min(gnomon_partitions_ahead_days)"},
            "stat",
            5,
            steps=(5, 3),
        ),
        Panel(
            "Replication lag",
            "Of the standby that is furthest behind; 0 without one.",
            "s",
            {"lag": "max(gnomon_replication_lag_seconds)"},
            "stat",
            5,
            steps=(1, 5),
        ),
        Panel(
            "Counted ago",
            "Since one node last counted what the database holds.",
            "s",
            {"ago": "time() - max(gnomon_installation_looked_timestamp_seconds)"},
            "stat",
            4,
            steps=(60, 300),
        ),
    ],
)

STATEMENTS = Row(
    "Statements",
    [
        Panel(
            "Claim",
            "How long a statement takes that claims a batch of tasks.",
            "s",
            quantiles("gnomon_claim_seconds"),
        ),
        Panel(
            "Settle",
            "How long a statement takes that settles a batch of tasks.",
            "s",
            quantiles("gnomon_settle_seconds"),
        ),
        Panel(
            "Tasks in a statement",
            "On average. Many are cheap; one each is the price of little work.",
            "short",
            {
                "claim": mean("gnomon_claim_batch_tasks"),
                "settle": mean("gnomon_settle_batch_tasks"),
            },
        ),
        Panel(
            "Claims missed",
            "Tasks a second that somebody else had claimed, cancelled or changed.",
            "ops",
            {"missed": rate("gnomon_claims_missed_total")},
        ),
        Panel(
            "Connections",
            "Of the pools of all processes: used, idle, and as many as there may be.",
            "short",
            {"{{state}}": "sum by (state) (gnomon_database_connections)"},
        ),
        Panel(
            "Waiting for a connection",
            "By process. More than 0 for long: the pool is too small, or statements too slow.",
            "short",
            {"{{instance}}": "gnomon_database_waiting"},
        ),
    ],
)

ROOM = Row(
    "Room and retention",
    [
        Panel("Size", "Of the whole database.", "bytes", {"size": "max(gnomon_database_bytes)"}),
        Panel(
            "Retention behind",
            "How long rows past their time wait to be removed.",
            "s",
            {"{{rows}}": "max by (rows) (gnomon_retention_behind_seconds)"},
            steps=(600, 900),
        ),
        Panel(
            "Hottest shard",
            "Its due tasks, in times of the average of all shards.",
            "short",
            {"times": "max(gnomon_hottest_shard_ratio)"},
        ),
    ],
)

CHORES = Row(
    "Chores and clocks",
    [
        Panel(
            "Errors of chores",
            "In background work, a second. Each is tried again.",
            "ops",
            {"{{chore}}": rate("gnomon_chore_errors_total", "chore")},
        ),
        Panel(
            "Chores without a holder",
            "For how long nobody has done work that one process does for all.",
            "s",
            {"{{chore}}": "max by (chore) (gnomon_chore_unheld_seconds)"},
            steps=(60, 120),
        ),
        Panel(
            "Clock offset",
            "Of a process's clock from PostgreSQL's, which decides what is due.",
            "s",
            {"{{instance}}": "abs(gnomon_clock_offset_seconds)"},
            steps=(0.5, 1),
        ),
    ],
)

DATABASE = Dashboard(
    "gnomon-database",
    "Gnomon database",
    "Connections, statements, size, partitions, replication, and the chores.",
    [NOW, STATEMENTS, ROOM, CHORES],
)

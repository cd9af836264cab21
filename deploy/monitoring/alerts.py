"""The alerts, by what they watch. Those about budgets of objectives are in `objectives.py`."""

from deploy.monitoring.alert import Alert, Urgency

P1, P2, P3 = Urgency.P1, Urgency.P2, Urgency.P3


def _quantile(share: float, histogram: str, window: str) -> str:
    return f"histogram_quantile({share}, sum by (le) (rate({histogram}_bucket[{window}])))"


_FAILED = 'sum({}(gnomon_executions_ended_total{{outcome=~"failed|timed_out|lost"}}[$5m]))'


def _last(gauge: str, window: str = "$2m") -> str:
    """The last value seen: a busy process misses a scrape, and that must not begin `for` anew."""
    return f"last_over_time({gauge}[{window}])"


_READY = "max(" + _last('gnomon_tasks{state="ready"}') + ")"
_HOTTEST = f"max({_last('gnomon_hottest_shard_ratio')})"
_ALIVE = "max(" + _last('gnomon_nodes{state="alive"}', "$1m") + ")"
_API = f"count({_last('gnomon_requests_under_way', '$1m')})"
_BLIND = f"{_API} > 0 unless on() max({_last('gnomon_nodes', '$1m')})"

TASKS = (
    Alert(
        "GnomonNoProgress",
        P1,
        "(sum(rate(gnomon_executions_started_total[$1m])) or vector(0))",
        f"""== 0
and on() (
  max(last_over_time(gnomon_oldest_due_seconds[$1m])) > 0
  or {_ALIVE} < 1
  or ({_BLIND})
)""",
        "5m",
        "Nothing has started for 5 minutes, and there is work to do",
    ),
    Alert(
        "GnomonDeadLettersMany",
        P2,
        'max(gnomon_tasks{state="dead_lettered"})',
        "> 100",
        "1m",
        "{{ $value }} dead letters wait for somebody",
    ),
    Alert(
        "GnomonDeadLettersGrowing",
        P2,
        "sum(rate(gnomon_dead_letters_total[$2m])) * 60",
        "> 10",
        "10m",
        '{{ printf "%.0f" $value }} tasks a minute fail for good',
    ),
    Alert(
        "GnomonStartDelayP95",
        P1,
        _quantile(0.95, "gnomon_start_delay_seconds", "$5m"),
        "> 10",
        "5m",
        'One task in 20 starts more than {{ printf "%.0f" $value }} s late',
    ),
    Alert(
        "GnomonStartDelayP99",
        P2,
        _quantile(0.99, "gnomon_start_delay_seconds", "$5m"),
        "> 5",
        "5m",
        'One task in 100 starts more than {{ printf "%.0f" $value }} s late',
    ),
    Alert(
        "GnomonRunTimeLong",
        P2,
        _quantile(0.95, "gnomon_run_seconds", "$5m"),
        "> 30",
        "15m",
        'One execution in 20 takes more than {{ printf "%.0f" $value }} s',
    ),
    Alert(
        "GnomonBacklogGrowing",
        P3,
        'max(deriv(gnomon_tasks{state="ready"}[$5m])) * 60',
        "> 500",
        "15m",
        'The backlog grows by {{ printf "%.0f" $value }} tasks a minute',
    ),
    Alert(
        "GnomonBacklogLarge",
        P3,
        _READY,
        "> 1000",
        "5m",
        "{{ $value }} due tasks wait for a slot",
    ),
    Alert(
        "GnomonFailuresMany",
        P3,
        f"{_FAILED.format('rate')} / sum(rate(gnomon_executions_ended_total[$5m]))",
        f"> 0.01\nand on() {_FAILED.format('increase')} > 10",
        "10m",
        "{{ $value | humanizePercentage }} of executions fail",
    ),
    Alert(
        "GnomonLowWaiting",
        P3,
        'max(gnomon_oldest_due_seconds{lane="LOW"})',
        "> $(300)",
        "1m",
        "A task of priority LOW has been due for {{ $value | humanizeDuration }}",
    ),
    Alert(
        "GnomonWorkUnserved",
        P3,
        f"max({_last('gnomon_work_unserved')})",
        "> 0",
        "10m",
        "{{ $value }} kinds of work wait and are in no node's pool",
    ),
    Alert(
        "GnomonBreakersOpen",
        P3,
        f"sum by (of) ({_last('gnomon_breakers_open')})",
        "> 0",
        "10m",
        "{{ $value }} breakers of a {{ $labels.of }} are open: its tasks wait",
    ),
)

RECURRING = (
    Alert(
        "GnomonSlaMissed",
        P2,
        "sum(increase(gnomon_cron_sla_missed_total[$10m]))",
        "> 0",
        "0s",
        "A recurring job did not start within its sla_seconds",
    ),
    Alert(
        "GnomonFiresMissed",
        P3,
        "sum(increase(gnomon_cron_fires_missed_total[$10m]))",
        "> 0",
        "0s",
        "A recurring job has missed a fire, and got no run for it",
    ),
)

NODES = (
    Alert(
        "GnomonNoNode",
        P1,
        _ALIVE,
        "< 1",
        "1m",
        "No scheduler node is alive: nothing runs",
    ),
    Alert(
        "GnomonProcessDown",
        P2,
        'up{job="gnomon"}',
        "== 0",
        "2m",
        "{{ $labels.instance }} does not answer a scrape",
    ),
    Alert(
        "GnomonSlotsBusy",
        P3,
        "sum(avg_over_time(gnomon_slots_busy[$5m])) / sum(avg_over_time(gnomon_slots[$5m]))",
        "> 0.8",
        "10m",
        "{{ $value | humanizePercentage }} of all slots are busy",
    ),
    Alert(
        "GnomonRecoveriesLasting",
        P3,
        "sum(rate(gnomon_recoveries_total[$2m]))",
        "> 0",
        "5m",
        "Running tasks are taken from lost nodes again and again",
    ),
    Alert(
        "GnomonRecoverySlow",
        P2,
        _quantile(0.99, "gnomon_recovery_seconds", "$10m"),
        "> 30",
        "0s",
        "The tasks of a lost node waited {{ $value | humanizeDuration }} for another one",
    ),
    Alert(
        "GnomonShardHot",
        P3,
        _HOTTEST,
        "> 5\n"
        # Of few due tasks, some shard always has many times the average.
        'and on() max(gnomon_hottest_shard_ratio) * max(gnomon_tasks{state="ready"}) / 256 > 50',
        "10m",
        'One shard has {{ printf "%.0f" $value }} times as much due work as the average',
    ),
    Alert(
        "GnomonHandlersHung",
        P3,
        f"sum({_last('gnomon_handlers_hung')})",
        "> 0",
        "10m",
        "{{ $value }} handlers do not stop",
    ),
    Alert(
        "GnomonClockOff",
        P3,
        "max by (instance) (abs(gnomon_clock_offset_seconds))",
        "> 1",
        "5m",
        "The clock of {{ $labels.instance }} is {{ $value | humanizeDuration }} off PostgreSQL's",
    ),
)

HOUSEKEEPING = (
    Alert(
        "GnomonChoreUnheld",
        P3,
        "max by (chore) (gnomon_chore_unheld_seconds)",
        "> $(120)",
        "0s",
        "Nobody does the chore {{ $labels.chore }}, for {{ $value | humanizeDuration }}",
    ),
    Alert(
        "GnomonChoreErrors",
        P3,
        "sum by (chore) (rate(gnomon_chore_errors_total[$5m]))",
        "> 0",
        "10m",
        "The chore {{ $labels.chore }} fails again and again",
    ),
    Alert(
        "GnomonPartitionsMissing",
        P2,
        "min(gnomon_partitions_ahead_days)",
        "< 3",
        "10m",
        "There are partitions for {{ $value }} days only: after that, nothing can be stored",
    ),
    Alert(
        "GnomonRetentionBehind",
        P3,
        "max by (rows) (gnomon_retention_behind_seconds)",
        "> $(900)",
        "5m",
        "{{ $labels.rows }} past their time have waited {{ $value | humanizeDuration }}",
    ),
    Alert(
        "GnomonInstallationUnseen",
        P3,
        "time() - max(gnomon_installation_looked_timestamp_seconds)",
        "> $(300)",
        "0s",
        "What the database holds was last counted {{ $value | humanizeDuration }} ago",
    ),
)

DATABASE = (
    Alert(
        "GnomonDatabaseUnavailable",
        P1,
        _API,
        _BLIND.removeprefix(_API).lstrip(),
        "1m",
        "The API cannot ask PostgreSQL",
    ),
    Alert(
        "GnomonReplicationLag",
        P1,
        "max(gnomon_replication_lag_seconds)",
        "> 5",
        "1m",
        "A standby of PostgreSQL is {{ $value | humanizeDuration }} behind",
    ),
    Alert(
        "GnomonConnectionsAwaited",
        P2,
        "max by (instance) (gnomon_database_waiting)",
        "> 0",
        "2m",
        "{{ $labels.instance }} waits for connections to PostgreSQL",
    ),
    Alert(
        "GnomonDiskFilling",
        P2,
        "min(gnomon_disk_free_bytes / gnomon_disk_bytes)",
        "< 0.1",
        "10m",
        "{{ $value | humanizePercentage }} of PostgreSQL's disk are free",
    ),
    Alert(
        "GnomonNoRoom",
        P1,
        "max(gnomon_no_room)",
        "> 0",
        "0s",
        "New work is refused: the disk of PostgreSQL is nearly full",
    ),
)

OF_STATE = (*TASKS, *RECURRING, *NODES, *HOUSEKEEPING, *DATABASE)

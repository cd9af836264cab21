"""For each alert, series over which it fires and series over which it does not, near its bound.

Values are in promtool's notation, a minute apart: `0+5x10` is 0, 5, 10, … after ten minutes 50.
"""

from dataclasses import dataclass
from typing import NamedTuple

Series = dict[str, str]
NODES = {'gnomon_nodes{state="alive"}': "1x60", "gnomon_requests_under_way": "0x60"}
ENDED = 'gnomon_executions_ended_total{outcome="%s"}'


class Firing(NamedTuple):
    """Series, and what is told of the alert `at` minutes after the first of them."""

    series: Series
    at: int
    summary: str
    labels: dict[str, str] = {}  # noqa: RUF012 - of the alert, beside its severity


class Quiet(NamedTuple):
    series: Series
    at: int


@dataclass(frozen=True)
class Cases:
    fires: list[Firing]
    quiet: list[Quiet]

    def all(self) -> list[Firing | Quiet]:
        return [*self.fires, *self.quiet]


def delays(histogram: str, bounds: dict[str, int]) -> Series:
    """A histogram that grows by so much a minute at each bound."""
    return {f'{histogram}_bucket{{le="{le}"}}': f"0+{each}x60" for le, each in bounds.items()}


STATE: dict[str, Cases] = {
    "GnomonNoProgress": Cases(
        [
            Firing(
                {
                    "gnomon_executions_started_total": "0+9x5 54x60",
                    'gnomon_oldest_due_seconds{lane="LOW"}': "0x5 1+60x60",
                    **NODES,
                },
                13,
                "Nothing has started for 5 minutes, and there is work to do",
            ),
            Firing(
                {'gnomon_nodes{state="alive"}': "0x60"},
                6,
                "Nothing has started for 5 minutes, and there is work to do",
            ),
            Firing(
                {"gnomon_requests_under_way": "0x60"},
                6,
                "Nothing has started for 5 minutes, and there is work to do",
            ),
        ],
        [
            Quiet(  # idle
                {
                    "gnomon_executions_started_total": "7x60",
                    'gnomon_oldest_due_seconds{lane="LOW"}': "0x60",
                    **NODES,
                },
                20,
            ),
            Quiet(  # slow
                {
                    "gnomon_executions_started_total": "0+1x60",
                    'gnomon_oldest_due_seconds{lane="LOW"}': "0+60x60",
                    **NODES,
                },
                20,
            ),
            Quiet(  # four minutes
                {
                    "gnomon_executions_started_total": "0+9x5 54x4 60+9x60",
                    'gnomon_oldest_due_seconds{lane="LOW"}': "9x60",
                    **NODES,
                },
                10,
            ),
        ],
    ),
    "GnomonDeadLettersMany": Cases(
        [
            Firing(
                {'gnomon_tasks{state="dead_lettered"}': "101x5"},
                2,
                "101 dead letters wait for somebody",
            )
        ],
        [Quiet({'gnomon_tasks{state="dead_lettered"}': "100x60"}, 20)],
    ),
    "GnomonDeadLettersGrowing": Cases(
        [Firing({"gnomon_dead_letters_total": "0+12x60"}, 13, "12 tasks a minute fail for good")],
        [
            Quiet({"gnomon_dead_letters_total": "0+10x60"}, 20),
            Quiet({"gnomon_dead_letters_total": "0+50x8 400x60"}, 20),
        ],
    ),
    "GnomonStartDelayP95": Cases(
        [
            Firing(
                delays("gnomon_start_delay_seconds", {"10.0": 94, "30.0": 100, "+Inf": 100}),
                8,
                "One task in 20 starts more than 13 s late",
            )
        ],
        [Quiet(delays("gnomon_start_delay_seconds", {"10.0": 96, "30.0": 100, "+Inf": 100}), 20)],
    ),
    "GnomonStartDelayP99": Cases(
        [
            Firing(
                delays("gnomon_start_delay_seconds", {"5.0": 98, "10.0": 100, "+Inf": 100}),
                8,
                "One task in 100 starts more than 8 s late",
            )
        ],
        [Quiet(delays("gnomon_start_delay_seconds", {"5.0": 100, "10.0": 100, "+Inf": 100}), 20)],
    ),
    "GnomonRunTimeLong": Cases(
        [
            Firing(
                delays("gnomon_run_seconds", {"30.0": 90, "60.0": 100, "+Inf": 100}),
                18,
                "One execution in 20 takes more than 45 s",
            )
        ],
        [Quiet(delays("gnomon_run_seconds", {"30.0": 96, "60.0": 100, "+Inf": 100}), 20)],
    ),
    "GnomonBacklogGrowing": Cases(
        [
            Firing(
                {'gnomon_tasks{state="ready"}': "0+510x60"},
                18,
                "The backlog grows by 510 tasks a minute",
            )
        ],
        [
            Quiet({'gnomon_tasks{state="ready"}': "0+490x60"}, 20),
            Quiet({'gnomon_tasks{state="ready"}': "0+900x10 9000x60"}, 20),
        ],
    ),
    "GnomonBacklogLarge": Cases(
        [Firing({'gnomon_tasks{state="ready"}': "1001x9"}, 6, "1001 due tasks wait for a slot")],
        [
            Quiet({'gnomon_tasks{state="ready"}': "1000x60"}, 20),
            Quiet({'gnomon_tasks{state="ready"}': "9000x3 0x60"}, 9),
        ],
    ),
    "GnomonFailuresMany": Cases(
        [
            Firing(
                {ENDED % "succeeded": "0+96x60", ENDED % "timed_out": "0+4x60"},
                20,
                "4% of executions fail",
            )
        ],
        [
            Quiet({ENDED % "succeeded": "0+995x60", ENDED % "failed": "0+5x60"}, 20),
            Quiet({ENDED % "succeeded": "0+9x60", ENDED % "failed": "0+1x5 5x60"}, 12),
        ],
    ),
    "GnomonLowWaiting": Cases(
        [
            Firing(
                {'gnomon_oldest_due_seconds{lane="LOW"}': "0+60x60"},
                8,
                "A task of priority LOW has been due for 8m 0s",
            )
        ],
        [
            Quiet({'gnomon_oldest_due_seconds{lane="LOW"}': "299x60"}, 20),
            Quiet({'gnomon_oldest_due_seconds{lane="HIGH"}': "900x60"}, 20),
        ],
    ),
    "GnomonWorkUnserved": Cases(
        [
            Firing(
                {"gnomon_work_unserved": "2x60"},
                11,
                "2 kinds of work wait and are in no node's pool",
            )
        ],
        [Quiet({"gnomon_work_unserved": "2x8 0x60"}, 15)],
    ),
    "GnomonBreakersOpen": Cases(
        [
            Firing(
                {
                    'gnomon_breakers_open{of="host"}': "1x60",
                    'gnomon_breakers_open{of="tenant"}': "0x60",
                },
                11,
                "1 breakers of a host are open: its tasks wait",
                {"of": "host"},
            )
        ],
        [Quiet({'gnomon_breakers_open{of="host"}': "1x8 0x60"}, 15)],
    ),
    "GnomonSlaMissed": Cases(
        [
            Firing(
                {"gnomon_cron_sla_missed_total": "0x5 1x60"},
                7,
                "A recurring job did not start within its sla_seconds",
            )
        ],
        [Quiet({"gnomon_cron_sla_missed_total": "3x60"}, 30)],
    ),
    "GnomonFiresMissed": Cases(
        [
            Firing(
                {"gnomon_cron_fires_missed_total": "0x5 1x60"},
                7,
                "A recurring job has missed a fire, and got no run for it",
            )
        ],
        [Quiet({"gnomon_cron_fires_missed_total": "3x60"}, 30)],
    ),
    "GnomonNoNode": Cases(
        [
            Firing(
                {'gnomon_nodes{state="alive"}': "2x2 0x9", 'gnomon_nodes{state="silent"}': "2x9"},
                5,
                "No scheduler node is alive: nothing runs",
            )
        ],
        [Quiet({'gnomon_nodes{state="alive"}': "1x60", 'gnomon_nodes{state="silent"}': "3x60"}, 9)],
    ),
    "GnomonProcessDown": Cases(
        [
            Firing(
                {'up{job="gnomon",instance="a"}': "0x60", 'up{job="gnomon",instance="b"}': "1x60"},
                3,
                "a does not answer a scrape",
                {"job": "gnomon", "instance": "a"},
            )
        ],
        [
            Quiet({'up{job="gnomon",instance="a"}': "1x3 0 1x60"}, 6),
            Quiet({'up{job="another",instance="a"}': "0x60"}, 20),
        ],
    ),
    "GnomonSlotsBusy": Cases(
        [
            Firing(
                {"gnomon_slots": "1000x60", "gnomon_slots_busy": "850x60"},
                11,
                "85% of all slots are busy",
            )
        ],
        [Quiet({"gnomon_slots": "1000x60", "gnomon_slots_busy": "800x60"}, 20)],
    ),
    "GnomonRecoveriesLasting": Cases(
        [
            Firing(
                {'gnomon_recoveries_total{reason="node_lost"}': "0+1x60"},
                8,
                "Running tasks are taken from lost nodes again and again",
            )
        ],
        [Quiet({'gnomon_recoveries_total{reason="node_lost"}': "0x3 40x60"}, 9)],
    ),
    "GnomonRecoverySlow": Cases(
        [
            Firing(
                delays("gnomon_recovery_seconds", {"30.0": 0, "60.0": 1, "+Inf": 1}),
                3,
                "The tasks of a lost node waited 59.7s for another one",
            )
        ],
        [Quiet(delays("gnomon_recovery_seconds", {"30.0": 1, "60.0": 1, "+Inf": 1}), 20)],
    ),
    "GnomonShardHot": Cases(
        [
            Firing(
                {"gnomon_hottest_shard_ratio": "6x60", 'gnomon_tasks{state="ready"}': "2200x60"},
                11,
                "One shard has 6 times as much due work as the average",
            )
        ],
        [
            Quiet(
                {"gnomon_hottest_shard_ratio": "5x60", 'gnomon_tasks{state="ready"}': "2000x60"},
                20,
            ),
            Quiet(
                {"gnomon_hottest_shard_ratio": "256x60", 'gnomon_tasks{state="ready"}': "1x60"},
                20,
            ),
        ],
    ),
    "GnomonHandlersHung": Cases(
        [Firing({'gnomon_handlers_hung{runs_in="loop"}': "1x60"}, 11, "1 handlers do not stop")],
        [Quiet({'gnomon_handlers_hung{runs_in="loop"}': "1x8 0x60"}, 15)],
    ),
    "GnomonClockOff": Cases(
        [
            Firing(
                {'gnomon_clock_offset_seconds{instance="a"}': "-1.5x60"},
                6,
                "The clock of a is 1.5s off PostgreSQL's",
                {"instance": "a"},
            )
        ],
        [Quiet({'gnomon_clock_offset_seconds{instance="a"}': "0.9x60"}, 20)],
    ),
    "GnomonChoreUnheld": Cases(
        [
            Firing(
                {
                    'gnomon_chore_unheld_seconds{chore="prune"}': "0+60x9",
                    'gnomon_chore_unheld_seconds{chore="watch"}': "0x9",
                },
                3,
                "Nobody does the chore prune, for 3m 0s",
                {"chore": "prune"},
            )
        ],
        [Quiet({'gnomon_chore_unheld_seconds{chore="prune"}': "120x60"}, 20)],
    ),
    "GnomonChoreErrors": Cases(
        [
            Firing(
                {'gnomon_chore_errors_total{chore="sweep"}': "0+1x60"},
                13,
                "The chore sweep fails again and again",
                {"chore": "sweep"},
            )
        ],
        [Quiet({'gnomon_chore_errors_total{chore="sweep"}': "0x3 5x60"}, 13)],
    ),
    "GnomonPartitionsMissing": Cases(
        [
            Firing(
                {"gnomon_partitions_ahead_days": "2x60"},
                11,
                "There are partitions for 2 days only: after that, nothing can be stored",
            )
        ],
        [Quiet({"gnomon_partitions_ahead_days": "3x60"}, 20)],
    ),
    "GnomonRetentionBehind": Cases(
        [
            Firing(
                {'gnomon_retention_behind_seconds{rows="events"}': "960x60"},
                6,
                "events past their time have waited 16m 0s",
                {"rows": "events"},
            )
        ],
        [Quiet({'gnomon_retention_behind_seconds{rows="events"}': "900x60"}, 20)],
    ),
    "GnomonInstallationUnseen": Cases(
        [
            Firing(
                {"gnomon_installation_looked_timestamp_seconds": "0x60"},
                6,
                "What the database holds was last counted 6m 0s ago",
            )
        ],
        [Quiet({"gnomon_installation_looked_timestamp_seconds": "0+60x60"}, 20)],
    ),
    "GnomonDatabaseUnavailable": Cases(
        [Firing({"gnomon_requests_under_way": "0x60"}, 2, "The API cannot ask PostgreSQL")],
        [
            Quiet(NODES, 20),
            Quiet({"gnomon_executions_started_total": "0x60"}, 20),  # the API is not scraped
        ],
    ),
    "GnomonReplicationLag": Cases(
        [
            Firing(
                {"gnomon_replication_lag_seconds": "6x60"},
                2,
                "A standby of PostgreSQL is 6s behind",
            )
        ],
        [Quiet({"gnomon_replication_lag_seconds": "5x60"}, 20)],
    ),
    "GnomonConnectionsAwaited": Cases(
        [
            Firing(
                {'gnomon_database_waiting{instance="a"}': "3x60"},
                3,
                "a waits for connections to PostgreSQL",
                {"instance": "a"},
            )
        ],
        [Quiet({'gnomon_database_waiting{instance="a"}': "3 0 3 0 3 0 3 0"}, 6)],
    ),
    "GnomonDiskFilling": Cases(
        [
            Firing(
                {"gnomon_disk_free_bytes": "8x60", "gnomon_disk_bytes": "100x60"},
                11,
                "8% of PostgreSQL's disk are free",
            )
        ],
        [Quiet({"gnomon_disk_free_bytes": "10x60", "gnomon_disk_bytes": "100x60"}, 20)],
    ),
    "GnomonNoRoom": Cases(
        [
            Firing(
                {"gnomon_no_room": "0 1x9"},
                2,
                "New work is refused: the disk of PostgreSQL is nearly full",
            )
        ],
        [Quiet({"gnomon_no_room": "0x60"}, 20)],
    ),
}

# Of each objective, what grows by how much a minute: errors, and all that is counted.
ERRORS: dict[str, tuple[str, str]] = {
    "start": ("", "gnomon_start_delay_seconds"),
    "end": ("gnomon_dead_letters_total", "gnomon_tasks_completed_total"),
    "success": ('gnomon_failures_total{fault="gnomon"}', "gnomon_executions_ended_total"),
    "api-latency": ("", "gnomon_request_seconds"),
    "api-availability": (
        'gnomon_requests_total{code="5xx"}',
        'gnomon_requests_total{code="2xx"}',
    ),
}
HISTOGRAM_BOUNDS = {"start": "5.0", "api-latency": "0.1"}

"""Objectives of service, what counts against them, and alerts that watch how fast budgets go.

The share of errors is recorded over several windows. An alert needs a long window, so that a
short trouble wakes nobody, and a short one, so that it ends soon after the trouble has.
"""

from dataclasses import dataclass
from typing import NamedTuple

from deploy.monitoring.alert import Alert, Urgency

RATIO = "gnomon:objective_errors:ratio_rate"
COUNT = "gnomon:objective_errors:increase"
TARGET = "gnomon:objective:target"
WINDOWS = ("5m", "30m", "1h", "6h", "3d")
# Fewer errors than that in the long window wake nobody: one in ten at night is no trend.
FEWEST = 10


@dataclass(frozen=True)
class Objective:
    """`errors` and `total` are counters; WINDOW in them stands for a window."""

    name: str
    target: float
    alert: str
    promise: str
    errors: str
    total: str

    @property
    def budget(self) -> float:
        """The share that may go wrong."""
        return round(1 - self.target, 6)


class Pace(NamedTuple):
    """How fast a budget goes that is meant to last 30 days."""

    times: float
    long: str
    short: str
    severity: Urgency
    lasting: str


# 2 % of the budget in an hour, 5 % in six hours, 10 % in three days.
PACES = (
    Pace(14.4, "1h", "5m", Urgency.P1, "2m"),
    Pace(6, "6h", "30m", Urgency.P2, "15m"),
    Pace(1, "3d", "6h", Urgency.P3, "1h"),
)


def _over(histogram: str, bound: str) -> str:
    """Observations beyond a bound."""
    return (
        f"(sum(rate({histogram}_count[WINDOW]))"
        f' - sum(rate({histogram}_bucket{{le="{bound}"}}[WINDOW])))'
    )


def _rate(counter: str) -> str:
    return f"sum(rate({counter}[WINDOW]))"


_DEAD = _rate("gnomon_dead_letters_total")

OBJECTIVES = (
    Objective(
        "start",
        0.999,
        "GnomonStartBudget",
        "99.9 % of executions start within 5 s",
        _over("gnomon_start_delay_seconds", "5.0"),
        _rate("gnomon_start_delay_seconds_count"),
    ),
    Objective(
        "end",
        0.995,
        "GnomonEndBudget",
        "99.5 % of tasks end without becoming a dead letter",
        _DEAD,
        f"({_rate('gnomon_tasks_completed_total')} + {_DEAD})",
    ),
    Objective(
        "success",
        0.9999,
        "GnomonSuccessBudget",
        "99.99 % of executions succeed but for the receiver's faults",
        _rate('gnomon_failures_total{fault="gnomon"}'),
        _rate("gnomon_executions_ended_total"),
    ),
    Objective(
        "api-latency",
        0.99,
        "GnomonApiLatencyBudget",
        "99 % of requests are answered within 100 ms",
        _over("gnomon_request_seconds", "0.1"),
        _rate("gnomon_request_seconds_count"),
    ),
    Objective(
        "api-availability",
        0.999,
        "GnomonApiAvailabilityBudget",
        "99.9 % of requests are answered without a server error",
        _rate('gnomon_requests_total{code="5xx"}'),
        _rate("gnomon_requests_total"),
    ),
)


def _burning(objective: Objective, pace: Pace) -> Alert:
    chosen = f'{{objective="{objective.name}"}}'
    bound = f"{pace.times:g} * {objective.budget:g}"
    return Alert(
        objective.alert,
        pace.severity,
        f"{RATIO}{pace.long}{chosen}",
        f"> {bound}\n"
        f"and {RATIO}{pace.short}{chosen} > {bound}\n"
        f"and {COUNT}{pace.long}{chosen} >= {FEWEST}",
        pace.lasting,
        f"{objective.promise}: {{{{ $value | humanizePercentage }}}} do not",
        {"window": pace.long},
    )


BUDGET_ALERTS = tuple(_burning(objective, pace) for objective in OBJECTIVES for pace in PACES)

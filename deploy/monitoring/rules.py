"""Makes Prometheus' rule files of the descriptions in this folder."""

import json
from textwrap import indent
from typing import Any

from deploy.monitoring.alert import Alert
from deploy.monitoring.alerts import DATABASE, HOUSEKEEPING, NODES, OF_STATE, RECURRING, TASKS
from deploy.monitoring.names import NAMES
from deploy.monitoring.objectives import (
    BUDGET_ALERTS,
    COUNT,
    OBJECTIVES,
    RATIO,
    TARGET,
    WINDOWS,
    Objective,
)
from deploy.monitoring.windows import duration, scaled, seconds

ALERTS = (*OF_STATE, *BUDGET_ALERTS)
RUNBOOKS = "docs/runbooks"
HEAD = "# Made by `make monitoring` from deploy/monitoring/; edit that.\n"

Rule = dict[str, Any]


def files(scale: float = 1, runbooks: str = RUNBOOKS) -> dict[str, str]:
    """The text of each rule file, by its name."""
    alerts = {
        "tasks": TASKS,
        "recurring": RECURRING,
        "nodes": NODES,
        "housekeeping": HOUSEKEEPING,
        "database": DATABASE,
        "budgets": BUDGET_ALERTS,
    }
    return {
        "gnomon-alerts.yml": _written(
            {
                f"gnomon-{group}": [_alerting(each, scale, runbooks) for each in members]
                for group, members in alerts.items()
            }
        ),
        "gnomon-objectives.yml": _written({"gnomon-objectives": _objectives(scale)}),
        "gnomon-names.yml": _written(
            {
                "gnomon-names": [
                    {"record": name.record, "expr": scaled(name.expression, scale)}
                    for name in NAMES
                ]
            }
        ),
    }


def _written(groups: dict[str, list[Rule]]) -> str:
    """The YAML of a rule file, by hand: expressions are blocks, so that nothing is escaped."""
    lines = [HEAD + "groups:"]
    for name, rules in groups.items():
        lines += [f"  - name: {name}", "    rules:"]
        for rule in rules:
            text = "\n".join(_field(key, value) for key, value in rule.items())
            lines.append("      - " + indent(text, " " * 8).lstrip())
    return "\n".join(lines) + "\n"


def _field(key: str, value: Any) -> str:
    if isinstance(value, dict):
        return f"{key}:\n" + indent("\n".join(_field(*each) for each in value.items()), "  ")
    if key == "expr":
        return f"{key}: |-\n" + indent(value, "  ")
    return f"{key}: {json.dumps(value) if key == 'summary' else value}"


def _alerting(alert: Alert, scale: float, runbooks: str) -> Rule:
    return {
        "alert": alert.name,
        "expr": scaled(alert.expression, scale),
        "for": duration(alert.lasting, scale),
        "labels": {"severity": str(alert.severity), **alert.labels},
        "annotations": {
            "summary": alert.summary,
            "runbook_url": f"{runbooks.rstrip('/')}/{alert.page}",
        },
    }


def _objectives(scale: float) -> list[Rule]:
    rules: list[Rule] = []
    for objective in OBJECTIVES:
        records = {TARGET: f"vector({objective.target})"}
        for window in WINDOWS:
            records[RATIO + window], records[COUNT + window] = _errors(objective, window)
        rules += [
            {
                "record": record,
                "expr": scaled(expression, scale),
                "labels": {"objective": objective.name},
            }
            for record, expression in records.items()
        ]
    return rules


def _errors(objective: Objective, window: str) -> tuple[str, str]:
    """The share of errors within a window, and how many they are."""
    errors = objective.errors.replace("WINDOW", f"${window}")
    total = objective.total.replace("WINDOW", f"${window}")
    return f"{errors} / {total}", f"{errors} * $({seconds(window)})"

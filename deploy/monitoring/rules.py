"""Makes Prometheus' rule files of the descriptions in this folder."""

from typing import Any

import yaml
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


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block."""


def _text(dumper: yaml.SafeDumper, text: str) -> Any:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


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
    document = {"groups": [{"name": name, "rules": rules} for name, rules in groups.items()]}
    return HEAD + yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=1000)


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

"""The rules, by the real promtool over their real windows."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.monitoring.alert import Alert
from deploy.monitoring.alerts import DATABASE, HOUSEKEEPING, NODES, OF_STATE, RECURRING, TASKS
from deploy.monitoring.objectives import OBJECTIVES, PACES, Objective, Pace
from deploy.monitoring.rules import RUNBOOKS, Rule
from deploy.monitoring.windows import seconds
from tests.monitoring.cases import ERRORS, HISTOGRAM_BOUNDS, STATE, Firing, Series
from tests.monitoring.programs import checked

PROMETHEUS = Path(__file__).parents[2] / "deploy" / "prometheus"
RULES = sorted(PROMETHEUS.glob("gnomon-*.yml"))
STATES = (TASKS, RECURRING, NODES, HOUSEKEEPING, DATABASE)
# Budgets are read from what was recorded at the same moment.
ORDER = ["gnomon-objectives", "gnomon-budgets"]
PER_STEP = 100_000.0  # of what an objective counts


def promtool(
    folder: Path, wanted: Callable[[Rule], bool], tests: list[dict[str, Any]], every: str = "1m"
) -> None:
    """Run tests over the wanted rules alone: each costs an evaluation for each minute."""
    rules, file = folder / "rules.yml", folder / "tests.yml"
    groups = [group for each in RULES for group in yaml.safe_load(each.read_text())["groups"]]
    for group in groups:
        group["rules"] = [rule for rule in group["rules"] if wanted(rule)]
    groups.sort(key=lambda group: ORDER.index(group["name"]) if group["name"] in ORDER else -1)
    rules.write_text(yaml.safe_dump({"groups": [group for group in groups if group["rules"]]}))
    document = {
        "rule_files": [str(rules)],
        "evaluation_interval": every,
        "group_eval_order": [group["name"] for group in groups if group["rules"]],
        "tests": tests,
    }
    file.write_text(yaml.safe_dump(document))
    checked("promtool", "test", "rules", str(file))


def rule_test(series: Series, every: str = "1m", **tests: Any) -> dict[str, Any]:
    values = [{"series": name, "values": value} for name, value in series.items()]
    return {"interval": every, "input_series": values, **tests}


def test_promtool_takes_the_rules() -> None:
    said = checked("promtool", "check", "rules", *map(str, RULES))
    assert said.count("SUCCESS") == len(RULES)


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    assert {alert.name for alert in OF_STATE} == STATE.keys()
    assert all(cases.fires and cases.quiet for cases in STATE.values())
    assert {objective.name for objective in OBJECTIVES} == ERRORS.keys()


@pytest.mark.parametrize("group", STATES, ids=lambda group: group[0].name)
def test_alerts_of_a_state_fire_where_they_should_and_nowhere_else(
    tmp_path: Path, group: tuple[Alert, ...]
) -> None:
    tests = []
    for alert in group:
        for case in STATE[alert.name].all():
            told = [expected(alert, case)] if isinstance(case, Firing) else []
            test = {"eval_time": f"{case.at}m", "alertname": alert.name, "exp_alerts": told}
            tests.append(rule_test(case.series, alert_rule_test=[test]))
    names = {alert.name for alert in group}
    promtool(tmp_path, lambda rule: rule.get("alert") in names, tests)


def expected(alert: Alert, case: Firing) -> dict[str, Any]:
    runbook = f"{RUNBOOKS}/{alert.page}"
    return {
        "exp_labels": {"severity": str(alert.severity), **case.labels},
        "exp_annotations": {"summary": case.summary, "runbook_url": runbook},
    }


def test_a_wrong_case_is_noticed(tmp_path: Path) -> None:
    """The tests above can fail."""
    name = "GnomonDeadLettersMany"
    test = {"eval_time": "9m", "alertname": name, "exp_alerts": []}
    wrong = rule_test({'gnomon_tasks{state="dead_lettered"}': "101x60"}, alert_rule_test=[test])
    with pytest.raises(AssertionError, match=name):
        promtool(tmp_path, lambda rule: rule.get("alert") == name, [wrong])


def budget_series(objective: Objective, share: float, after: float, steps: int) -> Series:
    """Counters over which that share goes wrong, and after so many steps another one."""

    def counter(before: float, later: float) -> str:
        first = f"0+{before:.6f}x{steps}"
        return f"{first} {before * steps + later:.6f}+{later:.6f}x{steps}"

    errors, total = ERRORS[objective.name]
    if bound := HISTOGRAM_BOUNDS.get(objective.name):
        within = counter(PER_STEP * (1 - share), PER_STEP * (1 - after))
        return {
            f'{total}_bucket{{le="{bound}"}}': within,
            f"{total}_count": counter(PER_STEP, PER_STEP),
        }
    good = counter(PER_STEP * (1 - share), PER_STEP * (1 - after))
    whole = counter(PER_STEP, PER_STEP)
    return {
        errors: counter(PER_STEP * share, PER_STEP * after),
        total: whole if objective.name == "success" else good,
    }


@pytest.mark.parametrize("pace", PACES, ids=lambda pace: pace.long)
def test_alerts_of_budgets_fire_above_their_pace_and_end_soon_after(
    tmp_path: Path, pace: Pace
) -> None:
    step = seconds(pace.short) // 300  # minutes between samples: five in the short window
    steps = seconds(pace.long) // 60 // step + 5
    tests = []
    for times, after, at, fires in (
        (1.1, 1.1, steps, True),
        (0.9, 0.9, steps, False),
        # The long window remembers the trouble; the short one sees that it is over.
        (1.5, 0.0, steps, True),
        (1.5, 0.0, steps + 10, False),
    ):
        series: Series = {}
        for objective in OBJECTIVES:
            bound = pace.times * objective.budget
            series |= budget_series(objective, bound * times, bound * after, steps)
        asked = f'count by (alertname) (ALERTS{{alertstate="firing",severity="{pace.severity}"}})'
        samples = [
            {"labels": f'{{alertname="{objective.alert}"}}', "value": 1} for objective in OBJECTIVES
        ]
        test = {
            "expr": asked,
            "eval_time": f"{at * step}m",
            "exp_samples": samples if fires else [],
        }
        tests.append(rule_test(series, f"{step}m", promql_expr_test=[test]))
    promtool(tmp_path, partial(of_budgets, pace), tests, f"{step}m")


def of_budgets(pace: Pace, rule: Rule) -> bool:
    """Whether a rule belongs to the budgets that go at that pace."""
    if "alert" in rule:
        return bool(rule["labels"].get("window") == pace.long)
    return str(rule["record"]).endswith(
        (f"rate{pace.short}", f"rate{pace.long}", f"increase{pace.long}")
    )


def test_few_errors_spend_no_budget(tmp_path: Path) -> None:
    """Nine dead letters among ten tasks wake nobody; a hundred times that do."""
    tests = []
    for times, fires in ((1, False), (100, True)):
        series = {
            "gnomon_dead_letters_total": f"0 {9 * times}x60",
            "gnomon_tasks_completed_total": f"0 {times}x60",
        }
        asked = 'count(ALERTS{alertname="GnomonEndBudget",alertstate="firing"})'
        samples = [{"labels": "{}", "value": 1}] if fires else []
        test = {"expr": asked, "eval_time": "4m", "exp_samples": samples}
        tests.append(rule_test(series, promql_expr_test=[test]))
    promtool(tmp_path, partial(of_budgets, PACES[0]), tests)

"""The dashboards: what is committed is what the builder makes, and has the form Grafana takes."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deploy.monitoring import dashboards
from deploy.monitoring.panels import SCHEMA, SOURCE, WIDTH
from tests.monitoring.test_files import AGAIN, DEPLOY

FILES = sorted((DEPLOY / "grafana").glob("*.json"))
UNITS = {"bytes", "ops", "percentunit", "reqps", "s", "short"}
KINDS = {"row", "stat", "timeseries", "bargauge"}
Dashboard = dict[str, Any]


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def dashboard(request: pytest.FixtureRequest) -> Dashboard:
    path: Path = request.param
    found: Dashboard = json.loads(path.read_text())
    return found


def test_the_dashboards_are_those_of_the_builder() -> None:
    assert {path.name: path.read_text() for path in FILES} == dashboards.files(), AGAIN


def test_titles_and_uids_are_used_once() -> None:
    found = [json.loads(path.read_text()) for path in FILES]
    for key in ("uid", "title"):
        assert max(Counter(each[key] for each in found).values()) == 1


def test_a_dashboard_asks_for_its_data_source(dashboard: Dashboard) -> None:
    assert dashboard["schemaVersion"] == SCHEMA
    source = dashboard["templating"]["list"][0]
    assert (source["name"], source["type"], source["query"]) == (
        "datasource",
        "datasource",
        "prometheus",
    )
    assert "id" not in dashboard  # which Grafana gives


def test_every_panel_has_a_title_a_description_a_unit_and_an_id_of_its_own(
    dashboard: Dashboard,
) -> None:
    panels = dashboard["panels"]
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    for panel in panels:
        assert panel["type"] in KINDS
        assert panel["title"]
        if panel["type"] != "row":
            assert panel["description"].endswith("."), panel["title"]
            assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
            assert panel["datasource"] == SOURCE
            assert panel["targets"]
            assert all(each["datasource"] == SOURCE for each in panel["targets"])
            refs = Counter(each["refId"] for each in panel["targets"])
            assert max(refs.values()) == 1


def test_panels_are_within_the_page_and_over_no_other(dashboard: Dashboard) -> None:
    taken: Counter[tuple[int, int]] = Counter()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= WIDTH
        taken.update(
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        )
    assert max(taken.values()) == 1


def test_legends_name_labels_that_the_expression_keeps(dashboard: Dashboard) -> None:
    """A sum that drops the label would leave the legend empty."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                expression = target["expr"]
                kept = re.findall(r"\bby \(([^)]*)\)|\bon \(([^)]*)\)", expression)
                aggregated = re.search(r"\b(sum|max|min|count)\b", expression)
                assert not aggregated or any(label in "".join(each) for each in kept), expression

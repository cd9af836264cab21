"""What is committed is what the builder makes, and Prometheus' own tools take it."""

from pathlib import Path

import pytest
from deploy.monitoring import rules
from deploy.monitoring.windows import duration, scaled
from tests.monitoring.programs import checked

DEPLOY = Path(__file__).parents[2] / "deploy"
AGAIN = "run `make monitoring`, and commit what it has changed"


def test_the_rules_are_those_of_the_builder() -> None:
    made = rules.files()
    committed = {page.name: page.read_text() for page in DEPLOY.glob("prometheus/gnomon-*.yml")}
    assert committed == made, AGAIN


def test_prometheus_and_alertmanager_take_their_configurations() -> None:
    folder = DEPLOY / "prometheus"
    assert "3 rule files found" in checked(
        "promtool", "check", "config", f"{folder}/prometheus.yml"
    )
    checked("amtool", "check-config", f"{folder}/alertmanager.yml")


@pytest.mark.parametrize(("severity", "receiver"), [("P1", "on-call"), ("P3", "office")])
def test_alerts_are_routed_by_their_severity(severity: str, receiver: str) -> None:
    config = f"--config.file={DEPLOY}/prometheus/alertmanager.yml"
    said = checked("amtool", "config", "routes", "test", config, f"severity={severity}")
    assert said.strip() == receiver


def test_inhibitions_name_alerts_that_exist() -> None:
    text = (DEPLOY / "prometheus" / "alertmanager.yml").read_text()
    names = {alert.name for alert in rules.ALERTS}
    named = {word for word in _words(text) if not word.endswith("+Budget")}
    assert named
    assert named <= names


def _words(text: str) -> set[str]:
    parts = text.replace('"', "|").replace("'", "|").split("|")
    return {part for part in parts if part.startswith("Gnomon")}


def test_a_time_scale_divides_windows_and_ages_but_not_bounds() -> None:
    expression = 'max(rate(a{le="5.0"}[$5m])) > 30 and b > $(300)'
    assert scaled(expression, 1) == 'max(rate(a{le="5.0"}[5m])) > 30 and b > 300'
    assert scaled(expression, 30) == 'max(rate(a{le="5.0"}[10000ms])) > 30 and b > 10'
    assert (duration("15m", 1), duration("15m", 60)) == ("15m", "15000ms")


def test_scaled_rules_are_taken_and_point_to_pages_elsewhere(tmp_path: Path) -> None:
    for name, text in rules.files(60, "https://wiki.example/gnomon/").items():
        (tmp_path / name).write_text(text)
    checked("promtool", "check", "rules", *map(str, sorted(tmp_path.iterdir())))
    assert "https://wiki.example/gnomon/no-node.md" in (tmp_path / "gnomon-alerts.yml").read_text()

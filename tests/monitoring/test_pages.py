"""The runbooks: one for each alert, with commands that exist."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from deploy.monitoring.rules import ALERTS

from gnomon.cli.main import app

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"
PAGES = sorted(page for page in RUNBOOKS.glob("*.md") if page.name != "README.md")


def test_every_alert_has_a_page_and_every_page_an_alert() -> None:
    assert {page.name for page in PAGES} == {alert.page for alert in ALERTS}


@pytest.mark.parametrize("name", sorted({alert.name for alert in ALERTS}))
def test_a_page_names_its_alert_and_severities(name: str) -> None:
    alerts = [alert for alert in ALERTS if alert.name == name]
    text = (RUNBOOKS / alerts[0].page).read_text()
    severities = ", ".join(alert.severity for alert in alerts)
    assert text.startswith(f"# {name}\n\n**{severities}.** ")
    assert re.findall(r"(?m)^## (.+)$", text) == ["Confirm", "Act"]


def test_the_index_lists_every_alert_with_its_severities() -> None:
    rows = re.findall(
        r"(?m)^\| \[(\w+)\]\((\S+)\) \| ([P\d, ]+) \|", (RUNBOOKS / "README.md").read_text()
    )
    expected = {
        alert.name: (alert.page, [each.severity for each in ALERTS if each.name == alert.name])
        for alert in ALERTS
    }
    assert {name: (page, severities.split(", ")) for name, page, severities in rows} == expected


def commands(text: str) -> Iterator[str]:
    """What a page says of `gnomon`: lines of its blocks, and text in backticks."""
    for block in re.findall(r"(?ms)^```sh\n(.*?)^```", text):
        yield from (line for line in block.splitlines() if line.startswith("gnomon "))
    yield from re.findall(r"`(gnomon [^`]+)`", re.sub(r"(?ms)^```.*?^```", "", text))


def unknown(command: str) -> str | None:
    """What in a command does not exist; None: all of it does."""
    words = shlex.split(command, comments=True)[1:]
    found: Any = typer.main.get_command(app)
    while hasattr(found, "commands"):
        if not words or words[0] not in found.commands:
            return f"{command}: {' '.join(words[:1])}"
        found, words = found.commands[words[0]], words[1:]
    options = {option for each in found.params for option in each.opts}
    wrong = [word for word in words if word.startswith("-") and word not in options]
    return f"{command}: {', '.join(wrong)}" if wrong else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page_exists(page: Path) -> None:
    named = list(commands(page.read_text()))
    assert named or "psql" in page.read_text()
    assert [wrong for command in named if (wrong := unknown(command))] == []


def test_a_command_that_does_not_exist_is_noticed() -> None:
    assert unknown("gnomon dead groups --type TYPE   # why") is None
    assert unknown("gnomon dead burn") == "gnomon dead burn: burn"
    assert unknown("gnomon nodes --loud") == "gnomon nodes --loud: --loud"

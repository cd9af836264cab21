"""The table at the end, and the same as JSON."""

from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from gnomon.bench.results import Findings, Measure, number
from gnomon.settings import Settings
from gnomon.store.embedded.tuning import SETTINGS


def show(console: Console, title: str, findings: Findings) -> None:
    table = Table(title=title, title_justify="left")
    table.add_column("measure")
    table.add_column("value", justify="right")
    table.add_column("")
    table.add_column("target", justify="right")
    table.add_column("")
    table.add_column("how", style="dim")
    for measure in findings.measures:
        table.add_row(*_cells(measure))
    console.print(table)


def write_json(
    file: Path, facts: dict[str, Any], options: dict[str, Any], findings: Findings
) -> None:
    settings = msgspec.to_builtins(Settings())
    content = {
        "machine": facts,
        "options": options,
        "settings": {"gnomon": settings, "postgresql": SETTINGS},
        "measures": [_document(measure) for measure in findings.measures],
        "tasks": msgspec.to_builtins(findings.tallies),
    }
    write_document(file, content)


def write_document(file: Path, content: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(content)) + b"\n")


def _cells(measure: Measure) -> list[str]:
    value = "[yellow]not measured[/]" if measure.value is None else number(measure.value)
    target = "" if measure.target is None else str(measure.target)
    verdict = {None: "", True: "[green]met[/]", False: "[red]missed[/]"}[measure.met]
    return [measure.title, value, measure.unit, target, verdict, measure.note]


def _document(measure: Measure) -> dict[str, Any]:
    return {
        "name": measure.name,
        "title": measure.title,
        "value": measure.value,
        "unit": measure.unit,
        "target": None if measure.target is None else str(measure.target),
        "met": measure.met,
        "note": measure.note,
    }

"""The table at the end, and the same as JSON."""

import os
import platform
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from bench.results import Findings, Measure, number
from gnomon import __version__
from gnomon.settings import Settings
from gnomon.store.embedded.tuning import SETTINGS


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "gnomon": __version__,
        "load_before": os.getloadavg()[0],
    }


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


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())

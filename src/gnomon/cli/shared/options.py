"""Options that several commands share, and what they come to."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from gnomon.cli.shared import secret_files
from gnomon.settings import Settings, Sources, load, load_with_sources

SETTINGS_VARIABLE = "GNOMON_SETTINGS"
API_VARIABLE = "GNOMON_API_URL"
_KEY = "gnomon.key"

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
ApiUrl = Annotated[
    str | None,
    typer.Option("--api", metavar="URL", envvar=API_VARIABLE, help="Where the API is."),
]
TaskIds = Annotated[list[str], typer.Argument(metavar="ID", help="One task or several.")]
TaskId = Annotated[str, typer.Argument(metavar="ID", help="The task's id.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Show at most so many.")]
Everything = Annotated[bool, typer.Option("--all", help="Show all, however many.")]


def settings_of(ctx: typer.Context, overrides: dict[str, str] | None = None) -> Settings:
    """The settings of this run; `overrides` are variables that flags of the command set."""
    return load(_environ(ctx) | (overrides or {}), settings_file(ctx))


def sourced_settings_of(ctx: typer.Context) -> tuple[Settings, Sources]:
    """The same, with where each of them comes from."""
    return load_with_sources(_environ(ctx), settings_file(ctx))


def _environ(ctx: typer.Context) -> dict[str, str]:
    key = _key(ctx.find_root())
    return dict(os.environ) | ({"GNOMON_API_KEY": key} if key else {})


def _key(root: Any) -> str | None:
    """What `--key-file` holds, read once: it may be stdin."""
    file = root.params.get("key_file")
    if file is None or (file == "-" and root.resilient_parsing):  # a shell that completes
        return None
    if _KEY not in root.meta:
        root.meta[_KEY] = secret_files.read(file, "--key-file")
    return str(root.meta[_KEY])


def settings_file(ctx: typer.Context) -> Path | None:
    """What `--settings` named."""
    file = ctx.find_root().params.get("settings_path")
    return Path(file) if file else None

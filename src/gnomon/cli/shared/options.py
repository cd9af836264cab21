"""Options that several commands share, and the settings of a command."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from gnomon.cli.shared import secret_files
from gnomon.settings import Settings, Sources, load_with_sources

SETTINGS_VARIABLE = "GNOMON_SETTINGS"
API_VARIABLE = "GNOMON_URL"
_KEY = "gnomon.key"

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
ApiUrl = Annotated[
    str | None,
    typer.Option("--api", metavar="URL", envvar=API_VARIABLE, help="Address of the API."),
]
TaskIds = Annotated[list[str], typer.Argument(metavar="ID", help="One task or several.")]
TaskId = Annotated[str, typer.Argument(metavar="ID", help="The task's id.")]
TypeFilter = Annotated[str | None, typer.Option("--type", help="Only of this type.")]
QueueFilter = Annotated[str | None, typer.Option("--queue", help="Only of this queue.")]
TagFilter = Annotated[str | None, typer.Option("--tag", help="Only with this tag.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Show at most this many.")]
Everything = Annotated[bool, typer.Option("--all", help="Show all of them.")]


class Invocation:
    """One run of a command: the sources of its settings, for errors."""

    def __init__(self) -> None:
        self.sources: Sources = {}

    def database_hint(self) -> str:
        """Where the address of the database comes from; never the address, which may hold a
        password."""
        source = self.sources.get(("database", "url"))
        return f" (it comes from {source})" if source else ""


def settings_of(ctx: typer.Context, overrides: dict[str, str] | None = None) -> Settings:
    """The settings of this command; `overrides` are the variables of its flags."""
    settings, sources = load_with_sources(_environ(ctx) | (overrides or {}), settings_file(ctx))
    invocation = ctx.find_root().obj
    if isinstance(invocation, Invocation):
        invocation.sources = sources
    return settings


def sourced_settings_of(ctx: typer.Context) -> tuple[Settings, Sources]:
    """The same, with the source of each setting."""
    return load_with_sources(_environ(ctx), settings_file(ctx))


def _environ(ctx: typer.Context) -> dict[str, str]:
    key = _key(ctx.find_root())
    return dict(os.environ) | ({"GNOMON_API_KEY": key} if key else {})


def _key(root: Any) -> str | None:
    """The content of `--key-file`, read once: it may be stdin."""
    file = root.params.get("key_file")
    if file is None or (file == "-" and root.resilient_parsing):  # a shell that completes
        return None
    if _KEY not in root.meta:
        root.meta[_KEY] = secret_files.read(file, "--key-file")
    return str(root.meta[_KEY])


def settings_file(ctx: typer.Context) -> Path | None:
    """The file that `--settings` names."""
    file = ctx.find_root().params.get("settings_path")
    return Path(file) if file else None

"""`gnomon bundle`: what somebody who helps needs to know of an installation; no secrets."""

import io
import os
import platform
import sys
import tarfile
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import UTC
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from gnomon import loop
from gnomon.cli.admin.scrubbing import parts_of, scrubbed
from gnomon.cli.admin.settings import shown_settings
from gnomon.cli.shared import database, output, remote
from gnomon.cli.shared.options import ApiUrl, AsJson, settings_file, settings_of
from gnomon.cli.shared.output import CommandFailed
from gnomon.client.errors import ClientError
from gnomon.clock import SystemClock
from gnomon.model.errors import GnomonError
from gnomon.settings import SECRETS, Settings
from gnomon.version import VERSION

if TYPE_CHECKING:
    from gnomon.client.client import DocumentClient
    from gnomon.store.postgres.database import Database

_EVENTS = 200
_LOG_LINES = 2_000
_LONGEST_LINE = 2_000
# Of an event: what cannot hold anything that a task was given, or that its target answered.
_TOLD_OF_EVENTS = (
    "task_type", "count", "since", "until", "reason", "sla_seconds", "warn_after_seconds",
    "start_by", "started_at", "finished_at", "attempt", "missed", "fire_at", "sla_at", "node",
    "calls", "failures", "seconds", "status", "quota", "limiter", "rows", "chore",
)  # fmt: skip

Parts = dict[str, str]


def bundle(
    ctx: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Where to write it; else here.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Add the end of this log file.")
    ] = None,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Write a support bundle (tar.gz): what somebody who helps needs to know.

    Versions, settings with secrets masked, the findings of `gnomon doctor`, nodes, events, counts,
    metrics, sizes of tables. No payloads, results, errors of tasks, keys or secrets. What cannot be
    had is left out, and the manifest says why. A file that exists is not overwritten.

    \b
    gnomon bundle
    gnomon bundle support.tar.gz --log /var/log/gnomon.log
    """
    settings = settings_of(ctx)
    now = SystemClock().now().astimezone(UTC)
    path = file or Path(f"gnomon-bundle-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    if path.exists():
        raise CommandFailed(f"{path} exists, and is not overwritten; give another name")
    parts: Parts = {"settings.json": _json(shown_settings(ctx))}
    if log is not None:
        parts["log.txt"] = _tail(log)
    missing = loop.run(_gather(parts, settings, settings_file(ctx), api))
    parts["manifest.json"] = _json(
        {
            "gnomon": VERSION,
            "python": sys.version,
            "platform": platform.platform(),
            "made_at": now,
            "files": sorted(parts),
            "left_out": missing,
        }
    )
    secrets = _secrets(settings)
    contents = {name: scrubbed(text, secrets).encode() for name, text in sorted(parts.items())}
    _write(path, contents, int(now.timestamp()))
    _tell(path, contents, missing, as_json=as_json)


def _tell(
    path: Path, contents: dict[str, bytes], missing: dict[str, str], *, as_json: bool
) -> None:
    if as_json:
        sizes = {name: len(content) for name, content in contents.items()}
        output.document({"file": str(path), "files": sizes, "left_out": missing})
        return
    output.table(
        ["in it", "bytes"], [(name, str(len(content))) for name, content in contents.items()]
    )
    for name, why in missing.items():
        output.note(f"{name} was left out: {why}")
    output.echo(f"{path} has no secrets or payloads; look into it before you send it")


async def _gather(
    parts: Parts, settings: Settings, file: Path | None, api: str | None
) -> dict[str, str]:
    """Adds what can be had; gives what cannot, and why."""
    from gnomon.cli.admin.checks.examine import examine

    missing: dict[str, str] = {}

    async def add(name: str, read: Callable[[], Awaitable[Any]]) -> None:
        try:
            found = await read()
            parts[name] = found if isinstance(found, str) else _json(found)
        except (ClientError, GnomonError, CommandFailed, OSError) as error:
            missing[name] = str(error)

    await add("doctor.json", lambda: examine(file, api))
    await add("database.json", lambda: database.used(database.existing_dsn(settings), _tables))
    address = remote.api_url(settings, api)
    async with remote.connected(address) as client:
        await add("nodes.json", client.list_nodes)
        await add("stats.json", client.get_task_stats)
        await add("activity.json", client.get_activity)
        await add("service_levels.json", client.get_service_levels)
        await add("events.json", lambda: _events(client))
    await add("metrics.txt", lambda: _metrics(address))
    return missing


async def _events(client: "DocumentClient") -> list[Any]:
    """The last events, less what may quote a task."""
    return [
        {
            "at": event["at"],
            "kind": event["kind"],
            "severity": event["severity"],
            "task_id": event["task_id"],
            "cron_job_id": event["cron_job_id"],
            "detail": {k: v for k, v in event["detail"].items() if k in _TOLD_OF_EVENTS},
        }
        async for event in client.list_events(limit=_EVENTS)
    ]


async def _metrics(address: remote.ApiAddress) -> str:
    import httpx

    try:
        async with httpx.AsyncClient(timeout=10.0) as client:
            key = {} if address.key is None else {"Authorization": f"Bearer {address.key}"}
            answer = await client.get(f"{address.url}/metrics", headers=key)
    except httpx.HTTPError as error:
        raise CommandFailed(f"{address.url}/metrics: {type(error).__name__}") from error
    if answer.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise CommandFailed("it tells of all tenants: an operator's key can read it")
    if answer.is_error:
        raise CommandFailed(f"{address.url}/metrics: HTTP {answer.status_code}")
    return answer.text


async def _tables(database: "Database") -> Any:
    """The server's version and settings, and what tables take."""
    async with database.connection() as connection:
        tables = await connection.fetch(
            """
            SELECT relname AS table, n_live_tup AS rows, n_dead_tup AS dead, last_autovacuum,
                last_autoanalyze, pg_total_relation_size(relid) AS bytes
            FROM pg_stat_user_tables WHERE schemaname = 'gnomon'
            ORDER BY pg_total_relation_size(relid) DESC LIMIT 200
            """
        )
        chosen = await connection.fetch(
            """
            SELECT name, setting, unit FROM pg_settings
            WHERE name = 'server_version' OR source NOT IN ('default', 'override')
              AND name !~ 'file|user|path|directory|conninfo|command|phrase|host|address|name|log'
            """
        )
    return {"tables": [dict(row) for row in tables], "settings": [dict(row) for row in chosen]}


def _tail(log: Path) -> str:
    try:
        with log.open(encoding="utf-8", errors="replace") as lines:
            last = deque((line[:_LONGEST_LINE].rstrip("\n") for line in lines), _LOG_LINES)
    except OSError as error:
        raise CommandFailed(f"the log cannot be read: {error}") from error
    return "\n".join(last) + "\n"


def _secrets(settings: Settings) -> list[str]:
    """Values that must not be found: of the settings, and of the environment by their names."""
    values = msgspec.to_builtins(settings)
    known = [values[section][name] for section, name in SECRETS]
    known += [
        value
        for name, value in os.environ.items()
        if any(word in name.upper() for word in ("SECRET", "PASSWORD", "TOKEN", "API_KEY"))
    ]
    return [part for each in known if each for part in parts_of(each)]


def _write(path: Path, contents: dict[str, bytes], at: int) -> None:
    """Only its owner may read it: what is in it is still about somebody's business."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise CommandFailed(f"{path} exists, and is not overwritten; give another name") from None
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}") from error
    with os.fdopen(descriptor, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(f"{path.name.removesuffix('.tar.gz')}/{name}")
            member.size, member.mtime, member.mode = len(content), at, 0o600
            archive.addfile(member, io.BytesIO(content))


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"

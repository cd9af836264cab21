"""`gnomon nodes`: the roster, what each node serves and runs, and how far behind it is."""

from typing import Any

import typer

from gnomon.cli.shared import output, remote
from gnomon.cli.shared.options import ApiUrl, AsJson, settings_of
from gnomon.cli.shared.tables import Column, Fit
from gnomon.model.fleet.pool import in_few_words
from gnomon.model.fleet.shard import SHARDS

_COLUMNS = (
    Column("name", Fit.WHOLE),
    Column("kind", Fit.WHOLE, rank=7),
    Column("incarnation", Fit.WHOLE, rank=6),
    Column("state", Fit.WHOLE),
    Column("lease", Fit.WHOLE, rank=2),
    Column("serves"),
    Column("shards", Fit.WHOLE, rank=3),
    Column("slots", Fit.WHOLE, rank=1),
    Column("running", Fit.WHOLE),
    Column("lag", Fit.WHOLE),
    Column("started", Fit.WHOLE, rank=5),
    Column("version", Fit.WHOLE, rank=4),
)


def nodes(ctx: typer.Context, as_json: AsJson = False, api: ApiUrl = None) -> None:
    """List the scheduler nodes. Needs an operator's key where authentication is on.

    Each with how long its lease is still good, what it serves (its pool), how many of the 256
    shards it serves that in, how many tasks it runs in how many slots, and its lag: how long the
    oldest due task in its shards that it serves has been waiting. A silent node's lease has run
    out, but no peer has declared it dead: it may still come back. A gateway is a node whose slots
    are those of remote workers; each of these is a session. Without an API, `gnomon doctor`
    counts the nodes on the database.

    \b
    gnomon nodes
    gnomon nodes --json
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(address, lambda client: client.list_nodes(), _show, as_json=as_json)


def _show(answer: dict[str, Any]) -> None:
    if not answer["nodes"]:
        output.note("no node has joined yet; start one with `gnomon up` or `gnomon scheduler`")
        return
    output.table(_COLUMNS, [_line(node) for node in answer["nodes"]])
    output.line(_due_line(answer["due"]))


def _line(node: dict[str, Any]) -> tuple[str, ...]:
    return (
        node["name"],
        node["kind"],
        node["incarnation"][:8],
        node["state"],
        _lease(node),
        _serves(dict(node["serves"])),
        "-" if node["dead"] or node["kind"] == "session" else f"{node['shards']} of {SHARDS}",
        str(node["slots"]),
        str(node["running"]),
        _seconds(node["lag_seconds"]),
        output.second(node["started_at"]),
        node["version"],
    )


def _serves(of: dict[str, list[str]]) -> str:
    """Its pool in few words: a worker may have hundreds of handlers."""
    runs = [kind for kind in of.pop("runs", []) if kind != "handlers" or not of.get("handlers")]
    return "; ".join([*runs, *(f"{k} {in_few_words(v)}" for k, v in of.items())]) or "everything"


def _lease(node: dict[str, Any]) -> str:
    if node["dead"]:
        return "-"
    text = _seconds(abs(node["lease_seconds"]))
    return text if node["alive"] else f"overdue by {text}"


def _due_line(due: dict[str, Any]) -> str:
    if not due["tasks"]:
        return "no task is due and waiting"
    count = f"{'at least ' if due['at_least'] else ''}{due['tasks']}"
    return f"due and waiting: {count}, the oldest for {_seconds(due['lag_seconds'])}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"

"""The screen of `gnomon top`: what is going on, in as many lines and columns as there are. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from gnomon.cli.shared.output import visible
from gnomon.cli.shared.tables import cut

Json = dict[str, Any]

LEAST_WIDTH, LEAST_HEIGHT = 40, 10
_LEAST_TABLE = 2  # its head, and a line
_NARROW = 20  # columns of a name, where there is no room for more


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What the API says at one moment. None: the key may not ask for it."""

    at: datetime
    activity: Json
    stats: Json
    nodes: Json | None = None
    tenants: Json | None = None


def facts(snapshot: Snapshot) -> Json:
    """The figures of the screen, for `--json`."""
    seconds = _seconds(snapshot.activity, snapshot.at)
    total = snapshot.activity["total"]
    return {
        "at": snapshot.at,
        "seconds": round(seconds, 3),
        "rates": _rates(total, seconds),
        "start_delay": total["start_delay"],
        "lanes": snapshot.stats["lanes"],
        "nodes": None if snapshot.nodes is None else snapshot.nodes["nodes"],
        "task_types": [_of_type(each, seconds) for each in snapshot.activity["task_types"]],
        "tenants": _of_tenants(snapshot),
    }


def _of_tenants(snapshot: Snapshot) -> list[Json] | None:
    if snapshot.tenants is None:
        return None
    seconds = _seconds(snapshot.tenants, snapshot.at)
    return [
        {"tenant_id": each["tenant_id"], **_rates(each, seconds)}
        for each in snapshot.tenants["tenants"]
    ]


def screen(snapshot: Snapshot, title: str, width: int, height: int) -> list[str]:
    """Lines that fit: what is of all first, then as much of each table as there is room for."""
    width, height = max(width, LEAST_WIDTH), max(height, LEAST_HEIGHT)
    known = facts(snapshot)
    at = snapshot.at.astimezone(UTC).strftime("%H:%M:%S UTC")
    lines = [f"gnomon top  {title}  {at}", *_head(known), "", *_lanes(known["lanes"])]
    tables = [
        table
        for table in (_nodes(known["nodes"]), *_types(known["task_types"]), _tenants(known))
        if len(table) > 1
    ]
    for table, room in zip(tables, _rooms(tables, height - len(lines)), strict=True):
        lines += ["", *table[:room]] if room >= _LEAST_TABLE else []
    return [cut(visible(line), width).rstrip() for line in lines[:height]]


def _rooms(tables: Sequence[Sequence[str]], height: int) -> list[int]:
    """How many lines of each are shown: two where there is room, then one more in turn."""
    rooms = [0] * len(tables)
    left = height
    for place in range(len(tables)):
        if left > _LEAST_TABLE:  # with an empty line before it
            rooms[place] = _LEAST_TABLE
            left -= _LEAST_TABLE + 1
    while left > 0:
        growing = [i for i, table in enumerate(tables) if 0 < rooms[i] < len(table)]
        if not growing:
            break
        for place in growing[:left]:
            rooms[place] += 1
        left -= len(growing[:left])
    return rooms


def _seconds(activity: Json, at: datetime) -> float:
    """How long the counted time is: the last minute is not over."""
    first = datetime.fromisoformat(activity["from"])
    return max(1.0, (at - first).total_seconds())


def _rates(sums: Json, seconds: float) -> Json:
    ended = sums["succeeded"] + sums["failed"]
    numbers = {
        "submitted": sums["submitted"],
        "started": sums["started"],
        "ended": ended,
        "failed": sums["failed"],
        "dead": sums["dead"],
        "run_seconds": sums["run_seconds"],
    }
    return {name: round(number / seconds, 3) for name, number in numbers.items()}


def _of_type(each: Json, seconds: float) -> Json:
    ended = each["succeeded"] + each["failed"]
    return {
        "task_type": each["task_type"],
        **_rates(each, seconds),
        "failed_share": round(each["failed"] / ended, 4) if ended else None,
        "mean_run_seconds": round(each["run_seconds"] / ended, 6) if ended else None,
    }


def _head(known: Json) -> list[str]:
    rates, delay = known["rates"], known["start_delay"]
    names = ("submitted", "started", "ended", "failed", "dead")
    told = "  ".join(f"{name} {_rate(rates[name])}" for name in names)
    delays = "  ".join(f"{name} {_span(delay[name])}" for name in ("p50", "p95", "p99"))
    return [f"a second     {told}", f"start delay  {delays}   of the last {known['seconds']:.0f} s"]


def _lanes(lanes: Sequence[Json]) -> list[str]:
    rows = [
        (lane["priority"], _count(lane["ready"]), _span(lane["oldest_ready_seconds"]),
         _count(lane["running"]))
        for lane in lanes
    ]  # fmt: skip
    return _table(("lane", "ready", "oldest", "running"), rows)


def _nodes(nodes: Sequence[Json] | None) -> list[str]:
    rows = [
        (node["name"], node["state"], str(node["slots"]), str(node["running"]),
         _span(node["lag_seconds"]))
        for node in nodes or ()
        if not node["dead"]
    ]  # fmt: skip
    return _table(("node", "state", "slots", "busy", "lag"), rows)


def _types(types: Sequence[Json]) -> tuple[list[str], list[str]]:
    slow = [each for each in types if each["mean_run_seconds"]]
    slow.sort(key=lambda each: -each["mean_run_seconds"])
    failing = [each for each in types if each["failed"]]
    failing.sort(key=lambda each: -each["failed"])
    return (
        _table(
            ("slowest type", "mean run", "started/s"),
            [
                (_type(each), _span(each["mean_run_seconds"]), _rate(each["started"]))
                for each in slow
            ],
        ),
        _table(
            ("most failing type", "failed/s", "share"),
            [
                (_type(each), _rate(each["failed"]), f"{100 * each['failed_share']:.1f} %")
                for each in failing
            ],
        ),
    )


def _tenants(known: Json) -> list[str]:
    rows = [
        (each["tenant_id"] or "(others)", _rate(each["submitted"]), _rate(each["started"]),
         _rate(each["failed"]), f"{each['run_seconds']:.1f}")
        for each in known["tenants"] or ()
    ]  # fmt: skip
    return _table(("tenant", "submitted/s", "started/s", "failed/s", "runs at once"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [[visible(cell) for cell in line] for line in (head, *rows)]
    names = min(max(_NARROW, *(len(line[0]) for line in lines)), 2 * _NARROW)
    return [
        f"{cut(line[0], names):<{names}}" + "".join(f"{cell:>13}" for cell in line[1:])
        for line in lines
    ]


def _type(each: Json) -> str:
    return each["task_type"] or "(others)"


def _count(count: Json) -> str:
    return f"{count['count']}{'+' if count['capped'] else ''}"


def _rate(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.1f}"


def _span(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"

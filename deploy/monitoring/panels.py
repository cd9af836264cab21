"""Makes a dashboard of Grafana out of rows of panels, and nothing that Grafana fills in itself."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

SCHEMA = 39  # of Grafana 10 and newer
WIDTH = 24  # columns of a dashboard
WINDOW = "$__rate_interval"  # what Grafana replaces by a window that suits the picture
SOURCE = {"type": "prometheus", "uid": "${datasource}"}

Kind = Literal["stat", "timeseries", "bargauge"]
Json = dict[str, Any]


@dataclass(frozen=True)
class Panel:
    """`shows` has expressions by what the legend calls them; `{{lane}}` is the label's value."""

    title: str
    description: str
    unit: str  # as Grafana calls it: s, ops, percentunit, bytes, short
    shows: dict[str, str]
    kind: Kind = "timeseries"
    width: int = 8
    stacked: bool = False
    # From which value on it is orange, and red. Below the first one it is green.
    steps: tuple[float, float] | None = None
    most: float | None = None  # of the axis

    @property
    def height(self) -> int:
        return 4 if self.kind == "stat" else 8


@dataclass(frozen=True)
class Row:
    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Dashboard:
    uid: str
    title: str
    description: str
    rows: Sequence[Row]
    # Further variables beside the data source: name and the query that lists its values.
    variables: dict[str, str] = field(default_factory=dict)

    def written(self) -> str:
        return json.dumps(self._document(), indent=2, ensure_ascii=False) + "\n"

    def expressions(self) -> list[str]:
        return [expr for row in self.rows for panel in row.panels for expr in panel.shows.values()]

    def _document(self) -> Json:
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": ["gnomon"],
            "schemaVersion": SCHEMA,
            "editable": True,
            "refresh": "30s",
            "time": {"from": "now-3h", "to": "now"},
            "templating": {"list": [_SOURCES, *map(_variable, self.variables.items())]},
            "links": [_LINK],
            "panels": self._panels(),
        }

    def _panels(self) -> list[Json]:
        made: list[Json] = []
        y = 0
        for row in self.rows:
            place = {"h": 1, "w": WIDTH, "x": 0, "y": y}
            made.append(
                {
                    "id": len(made) + 1,
                    "type": "row",
                    "title": row.title,
                    "collapsed": False,
                    "panels": [],
                    "gridPos": place,
                }
            )
            y += 1
            x = tallest = 0
            for panel in row.panels:
                if x + panel.width > WIDTH:
                    x, y, tallest = 0, y + tallest, 0
                place = {"h": panel.height, "w": panel.width, "x": x, "y": y}
                made.append({"id": len(made) + 1, **_panel(panel), "gridPos": place})
                x, tallest = x + panel.width, max(tallest, panel.height)
            y += tallest
        return made


_SOURCES = {
    "name": "datasource",
    "label": "Data source",
    "type": "datasource",
    "query": "prometheus",
}
_LINK = {
    "title": "Gnomon",
    "type": "dashboards",
    "tags": ["gnomon"],
    "asDropdown": True,
    "keepTime": True,
}


def _variable(named: tuple[str, str]) -> Json:
    name, query = named
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,  # whenever the range of time changes
        "sort": 1,
    }


def _panel(panel: Panel) -> Json:
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": SOURCE,
                "expr": expression,
                "legendFormat": legend,
                "instant": panel.kind != "timeseries",
                "range": panel.kind == "timeseries",
            }
            for number, (legend, expression) in enumerate(panel.shows.items())
        ],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _options(panel),
    }


def _defaults(panel: Panel) -> Json:
    made: Json = {"unit": panel.unit, "min": 0}
    if panel.most is not None:
        made["max"] = panel.most
    if panel.steps is not None:
        warn, bad = panel.steps
        rising = bad >= warn
        colours = ("green", "orange", "red") if rising else ("red", "orange", "green")
        bounds = (None, *sorted(panel.steps))
        steps = [
            {"color": colour, "value": value} for colour, value in zip(colours, bounds, strict=True)
        ]
        made["thresholds"] = {"mode": "absolute", "steps": steps}
        made["color"] = {"mode": "thresholds"}
    if panel.kind == "timeseries":
        made["color"] = {"mode": "palette-classic"}
        made["custom"] = {"fillOpacity": 10, "showPoints": "never"}
        if panel.stacked:
            made["custom"] |= {"fillOpacity": 40, "stacking": {"mode": "normal", "group": "A"}}
        if panel.steps is not None:
            made["custom"]["thresholdsStyle"] = {"mode": "dashed"}
    return made


def _options(panel: Panel) -> Json:
    if panel.kind == "timeseries":
        return {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    reduced = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    if panel.kind == "stat":
        return {"reduceOptions": reduced, "colorMode": "value", "graphMode": "none"}
    return {"reduceOptions": reduced, "orientation": "horizontal", "displayMode": "basic"}

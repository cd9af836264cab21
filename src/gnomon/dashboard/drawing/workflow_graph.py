"""The graph of a workflow, or of a run of one. SVG that takes its colours from the style sheet."""

from collections.abc import Sequence

import msgspec
from markupsafe import Markup

from gnomon.dashboard.drawing.layers import layers_of
from gnomon.dashboard.text.words import SIGNS, status_name

MOST_DRAWN = 150  # nodes: a larger graph cannot be taken in
_WIDE, _HIGH = 176, 44  # of a node
_RIGHT, _DOWN = 232, 64  # from one node to the next
_MARGIN = 12
_CHARACTERS = 20  # of a name that fit


class GraphNodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node as it is drawn."""

    name: str
    after: Sequence[str]
    status: str | None = None  # None: of a definition
    note: str = ""  # below its name: its task type, what it waits for
    url: str | None = None
    done: int | None = None  # elements, or spawned tasks, that have ended, of so many
    of: int = 0


def workflow_graph(nodes: Sequence[GraphNodeView], label: str) -> Markup | None:
    """The drawing; None where there are too many nodes."""
    if len(nodes) > MOST_DRAWN:
        return None
    placed = layers_of({node.name: node.after for node in nodes})
    width = (placed.columns - 1) * _RIGHT + _WIDE + 2 * _MARGIN
    height = (placed.rows - 1) * _DOWN + _HIGH + 2 * _MARGIN
    edges = Markup("").join(_edge(route) for _, route in placed.routes)
    drawn = Markup("").join(_node(node, *_corner(placed.places[node.name])) for node in nodes)
    return Markup(
        '<svg class="graph" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="group" '
        'aria-label="{2}"><defs><marker id="graph-arrow" viewBox="0 0 8 8" refX="7" refY="4" '
        'markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
        '<path class="head-free" d="M0 0L8 4L0 8z"/></marker></defs>{3}{4}</svg>'
    ).format(f"{width:g}", f"{height:g}", label, edges, drawn)


def _corner(place: tuple[int, float]) -> tuple[float, float]:
    column, row = place
    return _MARGIN + column * _RIGHT, _MARGIN + row * _DOWN


def _edge(route: Sequence[tuple[int, float]]) -> Markup:
    """From the right side of the first place to the left side of the last, through those
    between."""
    (left, top), *rest = [_corner(place) for place in route]
    x, y = left + _WIDE, top + _HIGH / 2
    path = [f"M{x:g} {y:g}"]
    for number, (next_left, next_top) in enumerate(rest, 1):
        to_x, to_y = next_left, next_top + _HIGH / 2
        half = (x + to_x) / 2
        path.append(f"C{half:g} {y:g} {half:g} {to_y:g} {to_x:g} {to_y:g}")
        x, y = to_x, to_y
        if number < len(rest):  # straight on below or above the nodes of this layer
            x += _WIDE
            path.append(f"H{x:g}")
    return Markup('<path class="edge" d="{}" marker-end="url(#graph-arrow)"/>').format(
        "".join(path)
    )


def _node(node: GraphNodeView, x: float, y: float) -> Markup:
    kind = "drawn" if node.status is None else f"s-{node.status.lower()}"
    sign = "" if node.status is None else SIGNS.get(node.status, "")
    told = node.name if node.status is None else f"{node.name}: {status_name(node.status)}"
    if node.done is not None:
        told += f", {node.done} of {node.of}"
    line = 19 if node.note or node.done is not None else 27  # alone, a name is in the middle
    inside = Markup(
        '<title>{}</title><rect class="box" x="{}" y="{}" width="{}" height="{}" rx="8"/>'
        '<text x="{}" y="{}"><tspan class="sign">{}</tspan>{}</text>'
        '<text class="note" x="{}" y="{}">{}</text>{}'
    ).format(
        told, f"{x:g}", f"{y:g}", _WIDE, _HIGH, f"{x + 12:g}", f"{y + line:g}",
        f"{sign} " if sign else "", _cut(node.name, _CHARACTERS), f"{x + 12:g}", f"{y + 34:g}",
        _cut(node.note, _CHARACTERS + 4), _progress(node, x, y),
    )  # fmt: skip
    if node.url is None:
        return Markup('<g class="node {}">{}</g>').format(kind, inside)
    return Markup('<a class="node {}" href="{}" aria-label="{}">{}</a>').format(
        kind, node.url, told, inside
    )


def _progress(node: GraphNodeView, x: float, y: float) -> Markup:
    """The bar of a mapped node."""
    if node.done is None:
        return Markup("")
    share = node.done / node.of if node.of else 0.0
    row = Markup('<rect class="{}" x="{}" y="{}" width="{}" height="4" rx="2"/>')
    inner = _WIDE - 24
    track = row.format("track", f"{x + 12:g}", f"{y + _HIGH - 7:g}", inner)
    done = row.format("done", f"{x + 12:g}", f"{y + _HIGH - 7:g}", f"{inner * share:g}")
    return track + done


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"

"""Places the nodes of a graph in layers, from left to right. Pure: numbers in, numbers out.

A node stands one layer right of the last that it waits for. Within the layers nodes are sorted so
that few edges cross: each goes to the mean place of its neighbours, sweep by sweep. An edge that
passes a layer has a place of its own in it, so that it goes around the nodes there.
"""

from collections.abc import Mapping, Sequence

import msgspec

_SWEEPS = 4

_Parents = Mapping[str, Sequence[str]]
_Cell = tuple[str, int]  # a node and 0; or the number of an edge, and the layer that it passes
_Cells = list[list[_Cell]]
_Links = list[tuple[_Cell, _Cell]]


class Layers(msgspec.Struct, frozen=True):
    """Where nodes are: their columns from 0, and their rows, which may be halves. Each edge has the
    places that it goes through, from its parent to its child."""

    places: dict[str, tuple[int, float]]
    routes: list[tuple[tuple[str, str], list[tuple[int, float]]]]
    columns: int
    rows: float


def layers_of(parents: _Parents) -> Layers:
    """The places of a graph without cycles; edges from nodes that are not in it are left out."""
    known = {name: [each for each in above if each in parents] for name, above in parents.items()}
    columns = _columns(known)
    edges = [(parent, name) for name, above in known.items() for parent in above]
    cells, links = _cells(columns, edges)
    for sweep in range(_SWEEPS):
        _sorted(cells, links, forward=sweep % 2 == 0)
    rows = _rows(cells, links)
    tallest = max((max(rows[cell] for cell in layer) + 1 for layer in cells), default=0.0)
    routes = []
    for number, (parent, name) in enumerate(edges):
        passed = range(columns[parent] + 1, columns[name])
        places = [(column, rows[str(number), column]) for column in passed]
        start = (columns[parent], rows[parent, 0])
        routes.append(((parent, name), [start, *places, (columns[name], rows[name, 0])]))
    placed = {name: (columns[name], rows[name, 0]) for name in known}
    return Layers(placed, routes, len(cells), tallest)


def _columns(parents: _Parents) -> dict[str, int]:
    """The length of the longest way to each node."""
    left = {name: len(above) for name, above in parents.items()}
    below: dict[str, list[str]] = {name: [] for name in parents}
    for name, above in parents.items():
        for parent in above:
            below[parent].append(name)
    columns = {name: 0 for name, number in left.items() if number == 0}
    ready = list(columns)
    for name in ready:  # it grows
        for child in below[name]:
            columns[child] = max(columns.get(child, 0), columns[name] + 1)
            left[child] -= 1
            if left[child] == 0:
                ready.append(child)
    return columns


def _cells(columns: Mapping[str, int], edges: Sequence[tuple[str, str]]) -> tuple[_Cells, _Links]:
    """What stands in each layer, and the links between neighbouring ones. An edge that passes a
    layer is named by its number, and by the layer."""
    cells: _Cells = [[] for _ in range(max(columns.values(), default=-1) + 1)]
    for name, column in columns.items():
        cells[column].append((name, 0))
    links: _Links = []
    for number, (parent, name) in enumerate(edges):
        before = (parent, 0)
        for column in range(columns[parent] + 1, columns[name]):
            here = (str(number), column)
            cells[column].append(here)
            links.append((before, here))
            before = here
        links.append((before, (name, 0)))
    return cells, links


def _neighbours(links: _Links, *, forward: bool) -> dict[_Cell, list[_Cell]]:
    found: dict[_Cell, list[_Cell]] = {}
    for before, after in links:
        of, other = (after, before) if forward else (before, after)
        found.setdefault(of, []).append(other)
    return found


def _sorted(cells: _Cells, links: _Links, *, forward: bool) -> None:
    """One sweep: each layer in the order of the means of its neighbours before it."""
    neighbours = _neighbours(links, forward=forward)
    ranks = {cell: rank for layer in cells for rank, cell in enumerate(layer)}
    for layer in cells if forward else cells[::-1]:
        means = {
            cell: _mean([ranks[each] for each in neighbours.get(cell, ())], ranks[cell])
            for cell in layer
        }
        layer.sort(key=means.__getitem__)
        ranks |= {cell: rank for rank, cell in enumerate(layer)}


def _rows(cells: _Cells, links: _Links) -> dict[_Cell, float]:
    """A row for each cell: near the mean of those before it, and below the one above it."""
    before = _neighbours(links, forward=True)
    rows: dict[_Cell, float] = {}
    for layer in cells:
        wanted = [
            _mean([rows[each] for each in before.get(cell, ())], float(place))
            for place, cell in enumerate(layer)
        ]
        placed: list[float] = []
        for row in wanted:
            placed.append(max(placed[-1] + 1, row) if placed else row)
        # What was pushed down is spread to both sides.
        shift = (sum(wanted) - sum(placed)) / len(layer)
        rows |= {
            cell: round(2 * (row + shift)) / 2 for cell, row in zip(layer, placed, strict=True)
        }
    least = min(rows.values(), default=0.0)
    return {cell: row - least for cell, row in rows.items()}


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise

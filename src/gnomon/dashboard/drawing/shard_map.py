"""The map of shards. It takes its colours from the style sheet, by class."""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from markupsafe import Markup

from gnomon.dashboard.text.words import NONE
from gnomon.model.fleet.shard import SHARDS

_COLOURS = 8
_SIDE = 16
_PARTS = 3  # of a cell


def letter(index: int) -> str:
    """How a node is marked: A to Z, then A1, B1, ..."""
    turn, place = divmod(index, 26)
    return chr(ord("A") + place) + (str(turn) if turn else "")


def shard_map(order: Sequence[tuple[UUID, str]], owned: Mapping[UUID, Iterable[int]]) -> Markup:
    """The 256 shards, each with the letter and colour of the node that serves it."""
    owners: dict[int, list[int]] = {}
    for index, (incarnation, _) in enumerate(order):
        for shard in owned.get(incarnation, ()):
            owners.setdefault(shard, []).append(index)
    cells = Markup("").join(_cell(shard, owners.get(shard, []), order) for shard in range(SHARDS))
    return Markup(
        '<svg class="shards" viewBox="0 0 320 320" role="img" '
        'aria-label="{} of {} shards are served">{}</svg>'
    ).format(len(owners), SHARDS, cells)


def _cell(shard: int, owners: Sequence[int], order: Sequence[tuple[UUID, str]]) -> Markup:
    row, column = divmod(shard, _SIDE)
    names = ", ".join(order[index][1] for index in owners) or "nobody"
    marks = "".join(letter(index) for index in owners[:_PARTS]) or NONE
    # Nodes of several pools share a shard: each has a part of its cell.
    colours = [f"n{index % _COLOURS}" for index in owners[:_PARTS]] or ["nobody"]
    width = 18 / len(colours)
    parts = Markup("").join(
        Markup('<rect class="shard {}" x="{}" y="{}" width="{}" height="18"/>').format(
            colour, f"{column * 20 + 1 + part * width:.1f}", row * 20 + 1, f"{width:.1f}"
        )
        for part, colour in enumerate(colours)
    )
    return Markup('<g>{}<text x="{}" y="{}">{}</text><title>shard {}: {}</title></g>').format(
        parts, column * 20 + 10, row * 20 + 13, marks, shard, names
    )

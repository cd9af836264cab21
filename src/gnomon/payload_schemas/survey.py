"""Bounds the cost of checking payloads against a JSON Schema, before any check.

A schema comes from a tenant. It must refer to nothing outside of itself, and no payload may take
for ever to be checked against it, or nest so deep that the checker's stack ends. So every way that
a check can go is followed here: a keyword applies its subschemas to the same value, or to one that
lies a level below. How often they apply along one path into a payload grows with its depth; how
deep payloads may be is where that gets too much. What each takes is in `keyword_weights`.
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import msgspec

from gnomon.model.errors import InvalidSchema
from gnomon.payload_schemas import keyword_weights
from gnomon.payload_schemas.pattern_weight import size_of

MOST_LEVELS = 100  # of a payload
FEWEST_LEVELS = 4  # a schema that does not even allow for these is of no use
MOST_STEPS = 20_000  # along one path into a payload
MOST_HEIGHT = 2_000  # of the stack
MOST_SUBSCHEMAS = 2_000
MOST_PATTERNS = 100
MOST_PATTERN_SIZE = 100_000  # of all together, with their repetitions written out
_UNBEARABLE = 10**9

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_SAME_VALUE = ("not", "if", "then", "else")
_SAME_VALUE_LISTS = ("allOf", "anyOf", "oneOf")
_SAME_VALUE_MAPS = ("dependentSchemas", "dependencies")
_BELOW = (
    "additionalProperties", "propertyNames", "items", "additionalItems", "contains",
    "unevaluatedProperties", "unevaluatedItems",
)  # fmt: skip
_ASIDE = ("$defs", "definitions")
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")


class _Node(msgspec.Struct):
    """A subschema: what it applies to the same value, and what to values below it. Of each group
    one at the most applies to any one of these."""

    pointer: str
    own: int = 1
    by_real: int = 0
    by_byte: int = 0
    again: int = 1  # how often those for the same value may apply
    same: list[int] = []
    below: list[list[int]] = []


class Cost(msgspec.Struct, frozen=True):
    """Steps of a check along one path into a payload: for each value at its end, and besides for
    each number that is not whole, and for each byte."""

    by_value: int
    by_real: int
    by_byte: int


class Survey(msgspec.Struct, frozen=True):
    """Limits of a schema: how deep payloads may be, and what a check of them costs."""

    costs: list[Cost]  # for payloads of no level, of one, and so on, as deep as they may be
    longest_text: int | None  # that a pattern or format is asked about; None: any

    @property
    def most_levels(self) -> int:
        return len(self.costs) - 1


def survey(schema: Any) -> Survey:
    """Raises InvalidSchema."""
    found = _Nodes(schema)
    order = _inner_first(found.nodes)
    most = min(MOST_LEVELS, MOST_HEIGHT // _height(found.nodes, order) - 1)
    steps = _by_level(found.nodes, order, [node.own for node in found.nodes], most, MOST_STEPS)
    if len(steps) <= FEWEST_LEVELS:
        raise InvalidSchema(
            f"takes more than {MOST_STEPS} steps to check for a payload of {FEWEST_LEVELS} levels; "
            "let fewer alternatives refer to each other, and list fewer values and names"
        )
    rest = [
        _by_level(found.nodes, order, own, len(steps) - 1, _UNBEARABLE)
        for own in ([n.by_real for n in found.nodes], [n.by_byte for n in found.nodes])
    ]
    # Where it got unbearable, it does not get better.
    reals, bytes_ = (each + [_UNBEARABLE] * (len(steps) - len(each)) for each in rest)
    costs = [Cost(*each) for each in zip(steps, reals, bytes_, strict=True)]
    return Survey(costs, found.longest_text)


class _Nodes:
    """All subschemas of a schema, and how they lead to each other. The first is the whole."""

    def __init__(self, schema: Any) -> None:
        self.nodes: list[_Node] = []
        self._whole = schema
        self._old = isinstance(schema, dict) and "draft-04" in str(schema.get("$schema", ""))
        self._found: dict[int, int] = {}  # by the identity of the object in memory
        self._anchors: dict[str, int] = {}
        self._references: list[tuple[int, str, str]] = []
        self._patterns = 0
        self._pattern_size = 0
        self._lengths: list[int | None] = []  # of texts that patterns and formats are asked about
        self._visit(schema, "")
        while self._references:
            self._follow(*self._references.pop())

    @property
    def longest_text(self) -> int | None:
        lengths = [length for length in self._lengths if length is not None]
        return max(lengths, default=0) if len(lengths) == len(self._lengths) else None

    def _visit(self, schema: Any, pointer: str) -> int:
        if isinstance(schema, dict) and id(schema) in self._found:
            return self._found[id(schema)]
        index = len(self.nodes)
        node = _Node(pointer, same=[], below=[])
        self.nodes.append(node)
        if index >= MOST_SUBSCHEMAS:
            raise InvalidSchema(f"has more than {MOST_SUBSCHEMAS} subschemas", pointer)
        if isinstance(schema, dict):
            self._found[id(schema)] = index
            self._identify(schema, index, pointer)
            self._weigh(schema, node)
            self._same_value(schema, node, index)
            self._below(schema, node)
            for key in _ASIDE:
                for name, each in _members(schema, key):
                    self._visit(each, f"{pointer}/{key}/{_escaped(name)}")
        return index

    def _weigh(self, schema: dict[str, Any], node: _Node) -> None:
        node.own = keyword_weights.steps_of(schema)
        node.by_real = keyword_weights.steps_by_real(schema)
        node.by_byte = keyword_weights.steps_by_byte(schema)
        if node.by_byte:
            named = "patternProperties" in schema
            length = schema.get("maxLength")
            self._lengths.append(length if type(length) is int and not named else None)
        patterns = keyword_weights.patterns_of(schema)
        self._patterns += len(patterns)
        if self._patterns > MOST_PATTERNS:
            raise InvalidSchema(f"is one of more than {MOST_PATTERNS} patterns", node.pointer)
        for pattern in patterns:
            self._pattern_size += size_of(pattern)
            if self._pattern_size > MOST_PATTERN_SIZE:
                named = pattern != schema.get("pattern")
                place = f"patternProperties/{_escaped(pattern)}" if named else "pattern"
                detail = "is not a pattern that can be used: it is too large, or those before it"
                raise InvalidSchema(detail, f"{node.pointer}/{place}")

    def _identify(self, schema: dict[str, Any], index: int, pointer: str) -> None:
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(schema.get(key), str):
                self._anchors[schema[key]] = index
        key = "id" if self._old else "$id"
        name = schema.get(key)
        if not isinstance(name, str) or not pointer:
            return
        if not name.startswith("#"):
            raise InvalidSchema(
                "only the whole schema may have one; refer to its parts by #/...",
                f"{pointer}/{key}",
            )
        self._anchors[name[1:]] = index

    def _same_value(self, schema: dict[str, Any], node: _Node, index: int) -> None:
        for key in _REFERENCES:
            if isinstance(schema.get(key), str):
                self._references.append((index, schema[key], f"{node.pointer}/{key}"))
        for key in _SAME_VALUE:
            if key in schema:
                node.same.append(self._visit(schema[key], f"{node.pointer}/{key}"))
        for key in _SAME_VALUE_LISTS:
            node.same += self._list(schema, key, node.pointer)
        for key in _SAME_VALUE_MAPS:
            for name, each in _members(schema, key):
                if not isinstance(each, list):  # of names that must be there
                    node.same.append(self._visit(each, f"{node.pointer}/{key}/{_escaped(name)}"))
        # To know what is left over, the rest is applied again, and once more for its own errors.
        node.again += 2 * sum(key in schema for key in _UNEVALUATED)

    def _below(self, schema: dict[str, Any], node: _Node) -> None:
        groups = [
            [
                self._visit(each, f"{node.pointer}/properties/{_escaped(name)}")
                for name, each in _members(schema, "properties")
            ],
            self._list(schema, "prefixItems", node.pointer),
            self._list(schema, "items", node.pointer),
        ]
        for pattern, each in _members(schema, "patternProperties"):
            pointer = f"{node.pointer}/patternProperties/{_escaped(pattern)}"
            groups.append([self._visit(each, pointer)])
        groups += [
            [self._visit(schema[key], f"{node.pointer}/{key}")]
            for key in _BELOW
            if key in schema and not isinstance(schema[key], list)
        ]
        node.below += [group for group in groups if group]

    def _list(self, schema: dict[str, Any], key: str, pointer: str) -> list[int]:
        value = schema.get(key)
        if not isinstance(value, list):
            return []
        return [self._visit(each, f"{pointer}/{key}/{i}") for i, each in enumerate(value)]

    def _follow(self, index: int, reference: str, pointer: str) -> None:
        if not reference.startswith("#"):
            raise InvalidSchema(
                "must begin with #: nothing outside of this schema is ever read; put what it "
                "refers to under $defs",
                pointer,
            )
        name = unquote(reference[1:])
        if name in self._anchors:
            found = self._anchors[name]
        else:
            found = self._visit(_at(self._whole, name, pointer), name)
        self.nodes[index].same.append(found)


def _at(whole: Any, name: str, pointer: str) -> Any:
    value = whole
    if name and not name.startswith("/"):
        raise InvalidSchema(f"there is no $anchor {name!r} in this schema", pointer)
    for part in name.split("/")[1:]:
        step = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            raise InvalidSchema("leads to nothing in this schema", pointer)
    return value


def _members(schema: dict[str, Any], key: str) -> list[tuple[str, Any]]:
    value = schema.get(key)
    return list(value.items()) if isinstance(value, dict) else []


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _inner_first(nodes: list[_Node]) -> list[int]:
    """An order in which everything comes after what it applies to the same value."""
    order: list[int] = []
    done = [False] * len(nodes)
    under_way: dict[int, Iterator[int]] = {}
    for start in range(len(nodes)):
        stack = [] if done[start] else [start]
        while stack:
            here = stack[-1]
            inner = next(under_way.setdefault(here, iter(nodes[here].same)), None)
            if inner is None:
                done[here] = True
                order.append(here)
                del under_way[stack.pop()]
            elif inner in under_way:
                detail = "comes back to itself without a step into the payload: it would never end"
                raise InvalidSchema(detail, nodes[inner].pointer)
            elif not done[inner]:
                stack.append(inner)
    return order


def _by_level(
    nodes: list[_Node], order: list[int], own: list[int], most: int, limit: int
) -> list[int]:
    """What the whole takes along a path, for every depth up to `most`, while it is within `limit`.
    `own` is what each takes alone."""
    # Those that apply nothing take the same at every level.
    inner = [(i, nodes[i]) for i in order if nodes[i].same or nodes[i].below]
    steps = own
    below: list[int] | None = None
    found: list[int] = []
    while len(found) <= most:
        before, steps = steps, _level(inner, own, steps.copy(), below, limit)
        if steps[0] > limit:
            break
        found.append(steps[0])
        if below is not None and steps == before:  # it leads no deeper
            found += [steps[0]] * (most + 1 - len(found))
        below = steps
    return found


def _height(nodes: list[_Node], order: list[int]) -> int:
    """How many subschemas, one within the other, are applied to one value at the most."""
    heights = [1] * len(nodes)
    for index in order:
        heights[index] += max((heights[i] for i in nodes[index].same), default=0)
    return max(heights)


def _level(
    inner: list[tuple[int, _Node]],
    own: list[int],
    steps: list[int],
    below: list[int] | None,
    limit: int,
) -> list[int]:
    """What checking takes for a value with a level more below it than `below` was for."""
    for index, node in inner:
        taken = own[index]
        for i in node.same:
            taken += node.again * steps[i]
        if below is not None:
            for group in node.below:
                taken += below[group[0]] if len(group) == 1 else max([below[i] for i in group])
        steps[index] = min(taken, limit + 1)
    return steps

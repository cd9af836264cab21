"""Values that are known only in a run: the input of a workflow, and the outputs of its steps.

Type checkers see the value itself. While the workflow is declared, a RunValue stands in its place:
its attributes and items are references to parts of the value, comparisons are conditions, and in
text it is written as a mark, which the definition replaces by a placeholder.
"""

import re
from typing import Any, Literal, NamedTuple, NoReturn

import msgspec

from gnomon.sdk.errors import InvalidWorkflow
from gnomon.sdk.values import encode_other

INPUT = "input"  # the sources that are no steps: of the run,
ITEM = "item"  # and an element of the list that a step is mapped over

# NUL stands in no text that PostgreSQL can keep, so nobody else writes marks.
_MARK = re.compile(r"\x00([a-z0-9]+)((?:\.[\w-]+)*)\x00")
_PART = re.compile(r"[\w-]{1,100}", re.ASCII)

Operator = Literal["==", "!=", "<", "<=", ">", ">=", "in"]


class Mark(NamedTuple):
    """A reference, as it is found in text: `source` is the above, or the number of a step;
    `path` is empty, or begins with a point."""

    start: int
    end: int
    source: str
    path: str


def marks(text: str) -> list[Mark]:
    """The references in a text."""
    if "\x00" not in text:
        return []
    return [Mark(*found.span(), found[1], found[2]) for found in _MARK.finditer(text)]


def marked(value: object) -> bytes:
    """A value as JSON, with marks for the references in it. Raises what classes in it raise."""
    return _encoder.encode(value)


def has_marks(document: bytes) -> bool:
    """Whether JSON has references in it."""
    return b"\\u0000" in document


class RunCondition:
    """A comparison that is decided in the run: for `only_if`."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    def __bool__(self) -> bool:
        raise InvalidWorkflow(
            "a condition is decided in each run, not while the workflow is declared: give it to "
            "only_if(), and join conditions with all_of() and any_of()"
        )


class RunValue:
    """A value that a run will have."""

    __slots__ = ("_gnomon_path", "_gnomon_source")

    def __init__(self, source: str, path: str = "") -> None:
        self._gnomon_source = source
        self._gnomon_path = path

    def __getattr__(self, name: str) -> "RunValue":
        if name.startswith("__"):
            raise AttributeError(name)
        return _part(self, name)

    def __getitem__(self, key: object) -> "RunValue":
        if isinstance(key, bool) or not isinstance(key, str | int):
            raise InvalidWorkflow(f"[{key!r}]: a part is named by a text or a number")
        return _part(self, str(key))

    def __str__(self) -> str:
        return f"\x00{self._gnomon_source}{self._gnomon_path}\x00"

    def __format__(self, spec: str) -> str:
        if spec:
            raise InvalidWorkflow(f"{{…:{spec}}}: a value of a run cannot be formatted")
        return str(self)

    def __repr__(self) -> str:
        return f"<RunValue {self._gnomon_source}{self._gnomon_path}>"

    def __eq__(self, other: object) -> Any:
        return _compared(self, "==", other)

    def __ne__(self, other: object) -> Any:
        return _compared(self, "!=", other)

    def __lt__(self, other: object) -> Any:
        return _compared(self, "<", other)

    def __le__(self, other: object) -> Any:
        return _compared(self, "<=", other)

    def __gt__(self, other: object) -> Any:
        return _compared(self, ">", other)

    def __ge__(self, other: object) -> Any:
        return _compared(self, ">=", other)

    __hash__ = None  # type: ignore[assignment] # it has no value that a hash could be of

    def __bool__(self) -> bool:  # noqa: PLE0304 - it always raises
        _unknown("is not known to be true or false; give a condition to only_if()")

    def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
        _unknown("cannot be called; do that in a handler")

    # Python would go through the items by number, and find no end.
    def __iter__(self) -> NoReturn:
        _unknown("cannot be gone through: the graph is drawn before the run")

    def __contains__(self, _item: object) -> bool:
        _unknown("cannot be searched; use is_in()")

    def __len__(self) -> int:  # noqa: PLE0303 - likewise
        _unknown("has no known length")


def all_of(*conditions: bool) -> bool:
    """All of these conditions hold: for `only_if`."""
    return _joined("all", conditions)


def any_of(*conditions: bool) -> bool:
    """One of these conditions holds: for `only_if`."""
    return _joined("any", conditions)


def is_in(value: object, values: object) -> bool:
    """`value in values`, decided in the run: for `only_if`."""
    return _compared(value, "in", values)  # type: ignore[return-value]


def document_of(condition: object) -> dict[str, Any]:
    """What a condition says. Raises InvalidWorkflow for what is none."""
    if not isinstance(condition, RunCondition):
        raise InvalidWorkflow(
            f"{condition!r} is no condition: compare an output or the input, as in "
            "only_if(charged.output.total > 0)"
        )
    return condition.document


def _joined(word: str, conditions: tuple[bool, ...]) -> bool:
    return RunCondition({word: [document_of(each) for each in conditions]})  # type: ignore[return-value]


def _compared(left: object, operator: Operator, right: object) -> RunCondition:
    return RunCondition({"left": left, "op": operator, "right": right})


def _part(of: RunValue, name: str) -> RunValue:
    if _PART.fullmatch(name) is None:
        raise InvalidWorkflow(
            f"{name!r} cannot stand in a placeholder: a part is named by letters, digits, _ and -"
        )
    return RunValue(of._gnomon_source, f"{of._gnomon_path}.{name}")


def _unknown(what: str) -> NoReturn:
    raise InvalidWorkflow(f"a value of a run, such as an output, {what}")


def _encode(value: Any) -> Any:
    return str(value) if isinstance(value, RunValue) else encode_other(value)


_encoder = msgspec.json.Encoder(enc_hook=_encode)

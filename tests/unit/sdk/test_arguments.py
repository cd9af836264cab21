"""Arguments are checked where they are given, written as JSON, and read as their types again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, Union, cast
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.sdk.claimed import executed

from gnomon.payload_schemas.schema import PayloadSchema
from gnomon.sdk.app import Gnomon
from gnomon.sdk.errors import InvalidArguments, InvalidHandler, InvalidResult
from gnomon.sdk.executing.context import TaskContext, stored_result
from gnomon.sdk.signals import Reject


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Options(TypedDict, total=False):
    colour: Colour
    size: int


@dataclass
class Item:
    name: str
    price: Decimal
    parts: "list[Item]" = field(default_factory=list)


class Order(msgspec.Struct):
    id: UUID
    items: list[Item] = []
    note: str | None = None


class Measured(pydantic.BaseModel):
    value: float | None


class Loose(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(ser_json_inf_nan="constants")
    value: float


class Address(pydantic.BaseModel):
    street: str
    since: datetime
    pobox: Decimal | None = None


class Customer(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    name: str
    born: date
    addresses: list[Address] = []


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text('abcö \0"\\', max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz"), inner, max_size=3),
    max_leaves=6,
)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=3)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))  # noqa: DTZ001 - naive ones, too
DELTAS = st.timedeltas(timedelta(days=-10_000), timedelta(days=10_000))
ITEMS = st.builds(
    Item, st.text(max_size=5), DECIMALS, st.lists(st.builds(Item, st.text(), DECIMALS), max_size=2)
)
ADDRESSES = st.builds(
    Address, street=st.text(max_size=5), since=MOMENTS, pobox=st.none() | DECIMALS
)

VALUES: dict[Any, st.SearchStrategy[Any]] = {
    Any: JSON,
    object: JSON,
    type(None): st.none(),
    bool: st.booleans(),
    int: st.integers(-(2**63), 2**63),
    float: FINITE,
    str: st.text(),
    bytes: st.binary(),
    datetime: MOMENTS | MOMENTS.map(lambda at: at.astimezone()),
    date: st.dates(),
    time: st.times(),
    timedelta: DELTAS,
    UUID: st.uuids(),
    Decimal: DECIMALS,
    Colour: st.sampled_from(Colour),
    Level: st.sampled_from(Level),
    Literal["a", "b", 3]: st.sampled_from(["a", "b", 3]),
    int | str | None: st.integers(0, 9) | st.text() | st.none(),
    list[datetime]: st.lists(MOMENTS, max_size=3),
    tuple[int, str]: st.tuples(st.integers(0, 9), st.text()),
    tuple[int, ...]: st.lists(st.integers(0, 9), max_size=3).map(tuple),
    set[UUID]: st.sets(st.uuids(), max_size=3),
    frozenset[int]: st.frozensets(st.integers(0, 9), max_size=3),
    dict[str, Decimal]: st.dictionaries(st.text(), DECIMALS, max_size=3),
    dict[int, list[Colour]]: st.dictionaries(
        st.integers(0, 9), st.lists(st.sampled_from(Colour), max_size=2), max_size=3
    ),
    Mapping[str, int]: st.dictionaries(st.text(), st.integers(0, 9), max_size=3),
    Sequence[int]: st.lists(st.integers(0, 9), max_size=3),
    Annotated[int, msgspec.Meta(ge=3)]: st.integers(3, 9),
    Point: st.builds(Point, st.integers(0, 9), FINITE),
    Options: st.fixed_dictionaries({}, optional={"size": st.integers(0, 9)}),
    Item: ITEMS,
    Order: st.builds(Order, st.uuids(), st.lists(ITEMS, max_size=2), st.none() | st.text()),
    Order | None: st.none() | st.builds(Order, st.uuids()),
    Customer: st.builds(
        Customer, name=st.text(), born=st.dates(), addresses=st.lists(ADDRESSES, max_size=2)
    ),
    list[Customer]: st.lists(st.builds(Customer, name=st.text(), born=st.dates()), max_size=2),
}


@pytest.mark.parametrize("kind", list(VALUES), ids=str)
def test_what_is_submitted_is_what_runs_and_what_the_schema_accepts(kind: Any) -> None:
    app = Gnomon()

    async def work(value: Any, *, other: Any = None) -> Any:
        return value

    either = Union[kind, None]  # noqa: UP007 - of a class, or of a form of typing
    work.__annotations__ = {"value": kind, "other": either, "return": kind}
    handler = app.task(work)
    schema = PayloadSchema(msgspec.json.encode(handler.arguments.schema()))

    @settings(max_examples=25, deadline=None, database=None)
    @given(VALUES[kind], VALUES[kind])
    def round_trip(value: Any, other: Any) -> None:
        payload = handler.arguments.encode((value,), {"other": other})
        assert handler.decode(payload) == (value, other)
        assert schema.mistakes(payload) == []
        if value is not None:
            result = stored_result(value)
            if not result.startswith('{"gnomon":"the result has'):
                assert handler.decode_result(result.encode()) == value

    round_trip()


def test_a_payload_of_any_kind_has_its_schema_and_its_default() -> None:
    app = Gnomon()

    @app.task
    async def total(payload: list[int] = []) -> int:  # noqa: B006
        return sum(payload)

    schema = PayloadSchema(msgspec.json.encode(total.arguments.schema()))
    assert schema.mistakes(b"[1,2]") == schema.mistakes(None) == []
    assert schema.mistakes(b'["a"]')
    assert total.arguments.encode(([1, 2],), {}) == b"[1,2]"
    assert total.decode(None) == ([],)
    with pytest.raises(InvalidArguments, match=r"argument payload\[1\]: Expected `int`, got `str`"):
        total.arguments.encode(([1, "x"],), {})


def test_a_schema_refuses_what_no_parameter_takes_and_null_where_something_must_be_said() -> None:
    app = Gnomon()

    @app.task
    async def one(n: int) -> None: ...

    @app.task
    async def none(n: int = 1) -> None: ...

    strict = PayloadSchema(msgspec.json.encode(one.arguments.schema()))
    assert strict.mistakes(b'{"n":1}') == []
    assert strict.mistakes(b'{"n":1,"m":2}')
    assert strict.mistakes(None)
    assert PayloadSchema(msgspec.json.encode(none.arguments.schema())).mistakes(None) == []


@pytest.mark.parametrize(
    ("args", "kwargs", "told"),
    [
        ((), {}, "buy: missing a required argument: 'user'"),
        ((1, 2, 3, 4), {}, "buy: too many positional arguments"),
        ((), {"usr": 1}, "buy: there is no argument usr; did you mean user?"),
        ((1,), {"usr": 1}, "buy: there is no argument usr; did you mean user?"),
        ((1,), {"user": 2}, "buy: multiple values for argument 'user'"),
        ((1,), {"ctx": None}, r"buy: there is no argument ctx \(there are: user, item,"),
        (("one",), {}, "buy: argument user: Expected `int`, got `str`"),
        ((1,), {"item": {"name": "x"}}, "argument item: Object missing required field `price`"),
        (
            (1,),
            {"item": Item("x", cast("Any", "y"))},
            "argument item.price: Invalid decimal string",
        ),
        ((1,), {"extra": object()}, "argument extra: object cannot be written as JSON"),
        ((1,), {"extra": {"a": [float]}}, "argument extra: type cannot be written as JSON"),
        ((1,), {"extra": "\ud800"}, "argument extra: .*surrogates not allowed"),
        ((1,), {"rate": float("inf")}, "argument rate: inf cannot be written as JSON"),
        ((1,), {"extra": {"a": [None, float("nan")]}}, "extra: nan cannot be written as JSON"),
        ((1,), {"extra": Measured(value=float("nan"))}, "extra: nan cannot be written as JSON"),
        (
            (1,),
            {"customer": {"name": 1, "born": "x"}},
            "argument customer: name: Input should be a valid string; born: Input should be",
        ),
    ],
)
def test_a_wrong_argument_is_named_where_it_is_given(
    args: tuple[Any, ...], kwargs: dict[str, Any], told: str
) -> None:
    app = Gnomon()

    @app.task
    async def buy(
        user: int,
        item: Item | None = None,
        *,
        ctx: TaskContext,
        extra: Any = None,
        rate: float = 1.0,
        customer: Customer | None = None,
    ) -> None: ...

    with pytest.raises(InvalidArguments, match=told) as caught:
        buy.arguments.encode(args, kwargs)
    assert isinstance(caught.value, TypeError)


async def test_parameters_may_have_any_name_and_any_default() -> None:
    app = Gnomon()
    shared: list[int] = [7]

    @app.task
    async def odd(
        self: int,
        /,
        field_0: int,
        class_: str = "c",
        *,
        payload: list[int] = shared,
        cls: Any = None,
    ) -> list[Any]:
        return [self, field_0, class_, payload is shared, cls]

    payload = odd.arguments.encode((1, 2), {"cls": {"a": None}})
    assert payload == b'{"self":1,"field_0":2,"cls":{"a":null}}'
    assert await executed(app, "odd", payload) == [1, 2, "c", True, {"a": None}]


def test_types_of_the_function_around_it_are_found() -> None:
    """Also as text, as after `from __future__ import annotations`."""
    app = Gnomon()

    @dataclass
    class Local:
        n: int

    @app.task
    async def work(local: "Local", many: "list[Local] | None" = None) -> "Local":
        return local

    @app.task(name="again")
    async def work_again(local: "Local") -> None: ...

    assert work.decode(b'{"local":{"n":1}}') == (Local(1), None)
    assert work.decode_result(b'{"n":2}') == Local(2)


def declared_elsewhere(line: "Item") -> None: ...


def test_names_where_it_is_declared_do_not_hide_those_of_its_own_module() -> None:
    Item = int  # noqa: N806
    app = Gnomon()
    app.task(declared_elsewhere)
    (line,) = app.handlers["declared_elsewhere"].decode(b'{"line":{"name":"x","price":"1"}}')
    assert not isinstance(line, Item)
    assert line.name == "x"


async def test_nesting_too_deep_is_rejected() -> None:
    app = Gnomon()

    @app.task
    async def work(value: Any) -> None: ...

    deep = b'{"value":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(Reject, match="work: the payload: "):
        await executed(app, "work", deep)
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidArguments, match="work: argument value: "):
        work.arguments.encode((loop,), {})


class Arguments(msgspec.Struct):
    name: str


def test_types_and_handlers_may_have_any_name() -> None:
    app = Gnomon()

    @app.task(name="odd/name with ~")
    async def work(arguments: Arguments) -> None: ...

    schema = PayloadSchema(msgspec.json.encode(work.arguments.schema()))
    assert schema.mistakes(b'{"arguments":{"name":"x"}}') == []
    assert schema.mistakes(b'{"name":"x"}')


class Opaque:
    pass


def _unknown(x: "NotDefinedHere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


def _opaque(x: Opaque) -> None: ...


def _nested(x: dict[str, list[Opaque | None]]) -> None: ...


def _ambiguous(x: str | datetime) -> None: ...


def _returns() -> Opaque: ...  # type: ignore[empty-body]


def _strange(x: 5) -> None: ...  # type: ignore[valid-type]


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (_unknown, r"_unknown \(.*\): an annotation says 'NotDefinedHere', which is not defined"),
        (_opaque, "_opaque: parameter x: Opaque cannot be read from JSON; use .* or Depends"),
        (_nested, "_nested: parameter x: Opaque cannot be read from JSON"),
        (_ambiguous, "_ambiguous: parameter x: Type unions may not contain more than one"),
        (_returns, "_returns: its result is kept as JSON, and Opaque cannot be"),
        (_strange, r"_strange.*: its annotations cannot be read|parameter x"),
    ],
)
def test_types_that_no_payload_can_hold_are_refused_at_declaration(
    function: Any, told: str
) -> None:
    with pytest.raises(InvalidHandler, match=told):
        Gnomon().task(function)


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (b"[]", "work: the payload: Expected `object`, got `array`"),
        (b"null", "work: the payload: Expected `object`, got `null`"),
        (b'{"at":5}', "work: argument at: Expected `datetime`, got `int`"),
        (b'{"at":"x"}', "work: argument at: Invalid RFC3339"),
        (b"{", "work: the payload: .*truncated"),
        (None, "work: argument at is missing"),
    ],
)
def test_a_payload_that_cannot_be_read_is_rejected(payload: bytes | None, told: str) -> None:
    app = Gnomon()

    @app.task
    async def work(at: datetime) -> None: ...

    with pytest.raises(Reject, match=told):
        work.decode(payload)


def test_equal_sets_make_equal_payloads() -> None:
    """Else a key that is used again by another process would be one of another task."""
    app = Gnomon()

    @app.task
    async def notify(users: set[str], groups: dict[str, frozenset[int]] | None = None) -> None: ...

    numbers = range(0, 8 * 40, 8)  # which collide: their order is that of insertion
    one, other = {f"{n}" for n in numbers}, {f"{n}" for n in reversed(numbers)}
    payload = notify.arguments.encode((one,), {"groups": {"a": frozenset(numbers)}})
    assert payload == notify.arguments.encode(
        (other,), {"groups": {"a": frozenset(reversed(numbers))}}
    )
    users = msgspec.json.decode(payload)["users"]
    assert users == sorted(users)


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (float("nan"), "ValueError: nan cannot be written as JSON"),
        ([None, Measured(value=float("-inf"))], "ValueError: -inf cannot be written as JSON"),
        (Loose(value=float("nan")), "DecodeError: JSON is malformed"),
        (msgspec.Raw(b"{bad"), "DecodeError: JSON is malformed"),
        (msgspec.Raw(b'"\xff"'), "UnicodeDecodeError: "),
    ],
)
def test_a_result_that_is_no_json_is_lost_and_not_changed(result: Any, told: str) -> None:
    note = msgspec.json.decode(stored_result(result))
    assert note["gnomon"].startswith(f"the result cannot be kept as JSON: {told}")


def test_results_are_read_as_what_the_function_returns_now() -> None:
    app = Gnomon()

    @app.task
    async def work() -> list[Point]:
        return [Point(1)]

    @app.task
    def untyped():  # type: ignore[no-untyped-def]
        return {"a": 1}

    assert work.decode_result(stored_result([Point(1), Point(2, 3)]).encode()) == [
        Point(1),
        Point(2, 3),
    ]
    assert untyped.decode_result(b'{"a":1}') == {"a": 1}
    assert untyped.decode_result(None) is None
    with pytest.raises(InvalidResult, match="work: its result cannot be read: Expected `array`"):
        work.decode_result(b'{"gnomon":"the result has 70000 bytes"}')

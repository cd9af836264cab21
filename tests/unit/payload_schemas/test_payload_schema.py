"""Schemas of payloads: what they reach, what they cost, and what they find."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.model.errors import InvalidSchema
from gnomon.payload_schemas.extent import nests_deeper
from gnomon.payload_schemas.schema import MOST_BYTES, PayloadSchema
from gnomon.payload_schemas.survey import MOST_LEVELS, MOST_STEPS, survey

TREE = {"type": "object", "additionalProperties": {"$ref": "#"}}
DRAFTS = (
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text('ab[]{}"\\', max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab["), inner),
    max_leaves=12,
)


def compiled(schema: Any) -> PayloadSchema:
    return PayloadSchema(json.dumps(schema).encode())


def pointers(schema: Any, payload: Any) -> list[str]:
    return [mistake.pointer for mistake in compiled(schema).mistakes(json.dumps(payload).encode())]


def refusal(schema: Any) -> tuple[str, str]:
    with pytest.raises(InvalidSchema) as refused:
        compiled(schema)
    return refused.value.pointer, refused.value.detail


def depth(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max((depth(each) for each in inner), default=0)


@given(values, st.integers(0, 5))
def test_the_depth_of_json_is_known_without_reading_it(value: Any, levels: int) -> None:
    assert nests_deeper(json.dumps(value).encode(), levels) == (depth(value) > levels)


@pytest.mark.parametrize("draft", DRAFTS)
def test_every_draft_is_known(draft: str) -> None:
    schema = {"$schema": draft, "properties": {"a/b~": {"type": "integer"}}}
    assert pointers(schema, {"a/b~": 1}) == []
    assert pointers(schema, {"a/b~": "1"}) == ["/a~1b~0"]


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}}, None, 1),
        ({"anyOf": [{"$ref": "#/anyOf/1"}, {"type": "null"}]}, None, 1),
        ({"$ref": "#here", "$defs": {"a": {"$anchor": "here", "type": "null"}}}, None, 1),
        ({"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": {"type": "null"}}}, None, 1),
        ({"$dynamicAnchor": "n", "type": "array", "items": {"$dynamicRef": "#n"}}, [[]], [[1]]),
        (
            {"$schema": DRAFTS[2], "definitions": {"a": {"$id": "#a", "type": "null"}},
             "items": {"$ref": "#a"}},
            [None], [1],
        ),
        ({"$schema": DRAFTS[0], "id": "http://x/y#", "properties": {"id": {"enum": [1]}}},
         {"id": 1}, {"id": 2}),
        (
            {"$schema": DRAFTS[3], "$recursiveAnchor": True, "type": "array",
             "items": {"$recursiveRef": "#"}},
            [[]], [[1]],
        ),
        ({"format": "date-time"}, "2026-11-01T00:00:00Z", "tomorrow"),
        ({"properties": {"$ref": {"type": "null"}}}, {"$ref": None}, {"$ref": "http://x/y"}),
        ({"const": {"$ref": "http://x/y"}}, {"$ref": "http://x/y"}, {}),
    ],
)  # fmt: skip
def test_references_within_a_schema_and_formats_hold(schema: Any, good: Any, bad: Any) -> None:
    assert pointers(schema, good) == []
    assert len(pointers(schema, bad)) == 1


@pytest.mark.parametrize(
    "reference",
    ["http://x/y", "https://json-schema.org/draft/2020-12/schema", "file:///etc/passwd", "y.json",
     "/y#/a", "", "urn:x", "?q#"],
)  # fmt: skip
def test_nothing_outside_of_a_schema_is_referred_to(reference: str) -> None:
    for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
        schema = {"items": {"anyOf": [{keyword: reference}]}}
        assert refusal(schema) == (f"/items/anyOf/0/{keyword}", refusal({keyword: reference})[1])


def test_parts_of_a_schema_have_no_address_of_their_own() -> None:
    inner = {"$id": "http://x/inner", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert refusal({"properties": {"a": inner}})[0] == "/properties/a/$id"
    assert (
        refusal({"$schema": DRAFTS[0], "properties": {"a": {"id": "y"}}})[0] == "/properties/a/id"
    )


@pytest.mark.parametrize(
    ("schema", "pointer", "words"),
    [
        ({"$ref": "#/nowhere"}, "/$ref", "leads to nothing"),
        ({"$ref": "#/anyOf/2", "anyOf": [{}, {}]}, "/$ref", "leads to nothing"),
        ({"$ref": "#nowhere"}, "/$ref", "no $anchor 'nowhere'"),
        ({"$ref": "#"}, "", "would never end"),
        ({"items": {"not": {"$ref": "#/items"}}}, "/items", "would never end"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"if": {"$ref": "#"}}}}, "", "would never end"),
        ({"items": {"pattern": r"(a)\1"}}, "/items/pattern", "back-references"),
        ({"patternProperties": {"(?=a)": {}}}, "/patternProperties/(?=a)", "look-around"),
        ({"pattern": "((a{1000}){1000}){1000}"}, "/pattern", "too large"),
        ({"items": {"format": "colour"}}, "/items/format", "is not a format that can be checked"),
        ({"properties": 5}, "/properties", "not of type"),
        ({"required": "a"}, "/required", "not of type"),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "/$schema", "draft 4, 6, 7"),
        ({"enum": ["x" * MOST_BYTES]}, "", "bytes; at most"),
        ({"properties": {str(n): {} for n in range(2001)}}, "/properties/1999", "subschemas"),
        ({"items": {"allOf": [{"pattern": "a"}] * 101}}, "/items/allOf/100", "100 patterns"),
        ([], "", "must be an object"),
    ],
)
def test_a_schema_that_cannot_be_used_says_where(schema: Any, pointer: str, words: str) -> None:
    where, detail = refusal(schema)
    assert where == pointer
    assert words in detail


def test_a_schema_has_its_depth() -> None:
    schema: Any = {}
    for _ in range(15):
        schema = {"properties": {"a": schema}}
    compiled(schema)
    for _ in range(2):
        schema = {"properties": {"a": schema}}
    assert "nested deeper than 32" in refusal(schema)[1]


def nested(keyword: str, times: int) -> Any:
    schema: Any = {"properties": {"a": {}}}
    for _ in range(times):
        schema = {"anyOf": [schema], keyword: False}
    return schema


def doubling(times: int) -> Any:
    steps = {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(times)}
    return {"$ref": "#/$defs/0", "$defs": {**steps, str(times): {"type": "integer"}}}


def test_what_would_take_too_long_is_refused_or_bounded() -> None:
    assert "steps" in refusal(doubling(14))[1]
    assert "steps" in refusal(nested("unevaluatedProperties", 9))[1]
    compiled(doubling(10))
    assert survey(TREE).most_levels == MOST_LEVELS
    assert (
        survey({"properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}}}).most_levels == MOST_LEVELS
    )
    both = {"items": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}
    allowed = survey(both).most_levels
    assert 2**allowed < MOST_STEPS < 2 ** (allowed + 4)
    schema = compiled(both)
    assert schema.mistakes(b"[" * allowed + b"]" * allowed) == []
    (mistake,) = schema.mistakes(b"[" * (allowed + 1) + b"]" * (allowed + 1))
    assert f"deeper than {allowed} levels" in mistake.detail


def test_many_values_that_have_many_alternatives_each_are_bounded() -> None:
    """Eight kilobytes of this took minutes, and gigabytes, to say what is wrong with them."""
    steps: dict[str, Any] = {
        str(n): {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(10)
    }
    steps["10"] = {"type": "string"}
    schema = compiled({"items": {"$ref": "#/$defs/0"}, "$defs": steps})
    (mistake,) = schema.mistakes(json.dumps([1] * 4_000).encode())
    assert "steps" in mistake.detail
    (mistake,) = schema.mistakes(json.dumps([1] * 100).encode())
    assert "too many alternatives" in mistake.detail
    assert schema.mistakes(json.dumps(["a"] * 100).encode()) == []
    assert schema.mistakes(json.dumps(["a,[" * 10_000]).encode()) == []
    # What is allowed to be deep costs no more where it is not.
    assert compiled(TREE).work(b'{"a": 1}') < compiled(TREE).work(b'{"a": {"a": 1}}') < 1_000


def list_of(item: Any) -> bytes:
    """As many as a payload may hold."""
    text = json.dumps(item, separators=(",", ":"))
    return f"[{','.join([text] * (256 * 1024 // (len(text) + 1)))}]".encode()


ANYWHERE = "".join("ab"[n * n % 7 % 2] for n in range(50_000))
NAMES = [f"a{n}" for n in range(3_000)]


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ({"items": {"enum": [*range(1_000), "x"]}}, list_of(999)),
        ({"items": {"enum": [n + 0.5 for n in range(100)]}}, list_of(99.5)),
        ({"items": {"enum": [[n] for n in range(500)]}}, list_of([499])),
        ({"items": {"dependentRequired": {name: ["b"] for name in NAMES}}}, list_of({})),
        ({"items": {"required": NAMES}}, list_of(dict.fromkeys(NAMES, 1))),
        ({"items": {"multipleOf": 0.01}}, list_of(1e300)),
        ({"items": {"minimum": 7}}, list_of(10**3000)),
        ({"items": {"uniqueItems": True}}, list_of([n + 0.5 for n in range(14)])),
        ({"uniqueItems": True}, list_of(0.12345678)),
        ({"items": {"format": "idn-hostname"}}, list_of("\u00e4.example")),
        ({"pattern": "(a|b)*a(a|b){1000}c"}, json.dumps(ANYWHERE).encode()),
        ({"pattern": "[ab]*a[ab]{100}c"}, json.dumps(ANYWHERE).encode()),
        ({"propertyNames": {"pattern": "[ab]*a[ab]{100}c"}}, json.dumps({ANYWHERE: 1}).encode()),
        (
            {"patternProperties": {f"[ab]*a[ab]{{{n}}}c": {} for n in range(20, 90)}},
            json.dumps({ANYWHERE: 1}).encode(),
        ),
        (doubling(10), list_of(1)),
    ],
)
def test_no_keyword_stops_the_process_for_long(schema: Any, payload: bytes) -> None:
    """Such payloads took up to nine seconds, in which nothing else of the process ran."""
    (mistake,) = compiled(schema).mistakes(payload)
    assert "steps" in mistake.detail


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ({"items": {"enum": NAMES}}, list_of("a2999")),
        (
            {"properties": {"id": {"pattern": "[ab]*a[ab]{50}", "maxLength": 60}}},
            json.dumps({"id": "a" * 60, "text": "," * 200_000}).encode(),
        ),
        (
            {"properties": {"id": {"pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"}}},
            json.dumps({"id": "00000000-0000-7000-8000-000000000000", "text": "x" * 200_000}),
        ),
        (
            {
                "items": {
                    "type": "object",
                    "properties": {
                        "mail": {"type": "string", "pattern": r"^\S+@\S+\.\S+$"},
                        "on": {"pattern": r"^\d{4}-\d{2}-\d{2}$"},
                        "amount": {"type": "number", "multipleOf": 0.01},
                        "tags": {"type": "array", "uniqueItems": True},
                    },
                    "required": ["mail", "on"],
                }
            },
            json.dumps(
                [{"mail": "a@b.example", "on": "2026-11-01", "amount": 9.5, "tags": ["x"]}] * 500
            ),
        ),
    ],
)
def test_what_schemas_are_made_for_is_not_refused(schema: Any, payload: bytes | str) -> None:
    text = payload.encode() if isinstance(payload, str) else payload
    assert compiled(schema).mistakes(text) == []


def test_a_text_that_is_too_long_for_its_pattern_is_not_searched_for_what_is_wrong() -> None:
    schema = compiled({"pattern": "(a|b)*a(a|b){1000}c", "maxLength": 10})
    (mistake,) = schema.mistakes(json.dumps(ANYWHERE[:8_000]).encode())
    assert "too many alternatives" in mistake.detail


def test_the_deepest_payload_and_the_highest_stack_are_survived() -> None:
    deep = b'{"a":' * MOST_LEVELS + b"1" + b"}" * MOST_LEVELS
    (mistake,) = compiled(TREE).mistakes(deep)
    assert mistake.pointer == "/a" * MOST_LEVELS
    chain = {str(n): {"$ref": f"#/$defs/{n + 1}"} for n in range(190)}
    schema = compiled(
        {"$ref": "#/$defs/0", "$defs": {**chain, "190": {"anyOf": [{"items": {"$ref": "#"}}]}}}
    )
    levels = schema.most_levels
    assert schema.mistakes(b"[" * levels + b"]" * levels) == []


def test_values_are_kept_out_of_messages_and_there_are_ten_at_the_most() -> None:
    schema = compiled({"items": {"type": "string", "maxLength": 3}})
    payload = json.dumps([123456789, "a secret", *range(20)]).encode()
    found = schema.mistakes(payload)
    assert len(found) == 10
    assert not any("123456789" in each.detail or "a secret" in each.detail for each in found)
    large = json.dumps([*range(100_000)]).encode()
    assert [each.pointer for each in schema.mistakes(large)] == ["/0"]


@pytest.mark.parametrize("payload", [b"1e400", b'"\\ud800"', b"1" * 5000, b'{"a":1e999}'])
def test_what_cannot_be_read_is_a_mistake_too(payload: bytes) -> None:
    (mistake,) = compiled({"type": "object"}).mistakes(payload)
    assert "cannot be checked" in mistake.detail


keywords = st.sampled_from(
    ["$ref", "$dynamicRef", "$id", "id", "$anchor", "$defs", "type", "properties", "items", "allOf",
     "anyOf", "not", "if", "then", "additionalProperties", "patternProperties", "pattern",
     "dependencies", "unevaluatedItems", "prefixItems", "contains", "enum", "format", "minimum",
     "$schema"],
)  # fmt: skip
texts = st.sampled_from(["#", "#/items", "#/$defs/a", "#a", "a", "string", "date", *DRAFTS[:2]])
schemas = st.recursive(
    st.booleans() | st.integers(-1, 2) | texts | st.none(),
    lambda inner: (
        st.dictionaries(keywords, inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
        | st.lists(inner, max_size=3)
    ),
    max_leaves=15,
)


@settings(max_examples=300, deadline=None)
@given(schemas, values)
def test_whatever_comes_is_refused_or_can_be_used(schema: Any, value: Any) -> None:
    try:
        usable = compiled(schema)
    except InvalidSchema:
        return
    assert isinstance(usable.mistakes(json.dumps(value).encode()), list)

"""Templates and conditions of nodes."""

from typing import Any
from uuid import UUID

import msgspec
import pytest

from gnomon.model.errors import InvalidTask
from gnomon.workflow.condition import check_condition, holds
from gnomon.workflow.template import (
    CannotRender,
    TemplateValues,
    references,
    rendered,
    rendered_text,
)

VALUES = TemplateValues(
    UUID(int=7),
    b'{"order": 12, "list": [1, {"x": "y"}]}',
    {"a": b'{"n": 1.5, "t": "\\u00e9"}', "hook": b'"{\\"id\\": 3}"', "none": None},
    frozenset({"big"}),
)


def filled(template: Any) -> Any:
    return msgspec.json.decode(rendered(msgspec.json.encode(template), VALUES))


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{run.input.order}}", 12),
        ("no. {{ run.input.order }}", "no. 12"),
        ({"{{nodes.a.result.t}}": "{{nodes.a.result}}"}, {"é": {"n": 1.5, "t": "é"}}),
        (["{{run.input.list.1.x}}", "{{run.id}}"], ["y", str(UUID(int=7))]),
        ("{{nodes.hook.result.id}}", 3),
        ("{{nodes.none.result}}", None),
        ("{{{{x}} {{run.input.list}}", '{{x}} [1,{"x":"y"}]'),
    ],
)
def test_values_are_put_in(template: Any, expected: Any) -> None:
    assert filled(template) == expected


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{{nodes.a.result.m}}", "has no 'm'"),
        ("{{nodes.none.result.m}}", "is null"),
        ("{{run.input.list.9}}", "2 elements"),
        ("{{run.input.order.x}}", "neither"),
        ("{{nodes.big.result}}", "larger"),
    ],
)
def test_what_does_not_fit_is_said(template: str, why: str) -> None:
    with pytest.raises(CannotRender, match=why):
        filled(template)


@pytest.mark.parametrize("text", ["{{nope}}", "{{nodes.a}}", "{{nodes..result}}", "{{run.input."])
def test_what_is_no_placeholder_is_refused(text: str) -> None:
    with pytest.raises(InvalidTask):
        references(msgspec.json.encode({"x": text}), "/payload")


def test_a_value_cannot_leave_its_part_of_a_url() -> None:
    values = TemplateValues(UUID(int=1), b'"/../@evil?a=b#c"')
    url = rendered_text("https://x.test/{{run.input}}", values, in_url=True)
    assert url == "https://x.test/%2F..%2F%40evil%3Fa%3Db%23c"


@pytest.mark.parametrize("value", [".", "..", "%2e%2E"])
@pytest.mark.parametrize("text", ["{{run.input}}", "{{run.input}}/b?c=..", "a/{{run.input}}/b"])
def test_a_value_cannot_lead_to_another_place(value: str, text: str) -> None:
    values = TemplateValues(UUID(int=1), msgspec.json.encode(value))
    if value.startswith("%"):  # it is text, and stays so
        assert "%252e%252E" in rendered_text(f"https://x.test/{text}", values, in_url=True)
        return
    with pytest.raises(CannotRender, match=r"would be \. or \.\."):
        rendered_text(f"https://x.test/{text}", values, in_url=True)
    parts = TemplateValues(UUID(int=1), b'"."')
    with pytest.raises(CannotRender):
        rendered_text("https://x.test/{{run.input}}{{run.input}}", parts, in_url=True)
    assert rendered_text("https://x.test/a?b={{run.input}}", values, in_url=True).endswith(value)


def compared(left: Any, op: str, right: Any) -> bool:
    return holds(msgspec.json.encode({"left": left, "op": op, "right": right}), VALUES)


def test_conditions_compare_values() -> None:
    assert compared("{{run.input.order}}", "==", 12)
    assert compared("{{run.input.order}}", "!=", "12")
    assert compared(True, "!=", 1)
    assert compared(1, "==", 1.0)
    assert compared(1, "in", "{{run.input.list}}")
    assert compared("b", "in", "abc")
    assert compared("a", "<", "b")
    assert not compared(2, "<=", 1.5)
    assert compared(2, ">=", 2)
    assert not compared(2, ">", 2)
    for left, op, right in ((1, "<", "2"), (None, "<", 1), (1, "in", 2)):
        with pytest.raises(CannotRender):
            compared(left, op, right)


def test_conditions_that_make_no_sense_are_refused() -> None:
    good = {"left": 1, "op": "==", "right": 1}
    refused: list[Any] = [
        1, {}, {"all": []}, good | {"x": 1}, {"all": [good], "any": [good]}, {"any": [{}]},
        {"all": [good] * 101},
    ]  # fmt: skip
    for bad in refused:
        with pytest.raises(InvalidTask):
            check_condition(msgspec.json.encode(bad), "/if")
    check_condition(msgspec.json.encode({"all": [good, {"any": [good]}]}), "/if")

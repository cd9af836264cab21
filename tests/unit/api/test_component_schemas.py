"""Schemas of the OpenAPI document, as generators of clients need them."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from gnomon.api.http.document.component_schemas import described, tidy


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class RedShape(msgspec.Struct, tag="red"):
    width: float


class BlueShape(msgspec.Struct, tag="blue"):
    height: float


class Drawing(msgspec.Struct):
    """A drawing,
    with shapes."""

    shape: RedShape | BlueShape
    at: Annotated[datetime, msgspec.Meta(tz=True)]
    other: RedShape | BlueShape | None = None
    colour: Colour = Colour.RED
    scale: Annotated[float, msgspec.Meta(ge=0, description="How large")] = 1.5
    tags: tuple[str, ...] = ()
    name: str | None = None


def components() -> dict[str, Any]:
    _, found = msgspec.json.schema_components([Drawing], ref_template="#/components/schemas/{name}")
    return tidy(found)


def test_a_union_of_tagged_types_has_a_name() -> None:
    found = components()
    shape = {"$ref": "#/components/schemas/Shape"}
    fields = found["Drawing"]["properties"]
    assert fields["shape"] == shape
    assert shape in fields["other"]["anyOf"]
    assert found["Shape"]["title"] == "Shape"
    assert found["Shape"]["discriminator"]["propertyName"] == "type"


def test_an_enum_is_a_string_and_a_number_is_a_double() -> None:
    found = components()
    assert found["Colour"]["type"] == "string"
    assert found["RedShape"]["properties"]["width"] == {"type": "number", "format": "double"}
    assert found["Drawing"]["properties"]["at"]["format"] == "date-time"


def test_a_default_is_told_in_words_because_it_would_make_a_field_required() -> None:
    fields = components()["Drawing"]["properties"]
    assert not any("default" in field for field in fields.values())
    assert fields["scale"]["description"] == "How large. Default: 1.5"
    assert fields["colour"]["description"] == 'Default: "red"'
    assert "description" not in fields["name"]
    assert components()["Drawing"]["required"] == ["shape", "at"]
    assert components()["Drawing"]["description"] == "A drawing,\nwith shapes."


def test_a_property_of_any_name_is_a_property() -> None:
    odd = {"type": "object", "properties": {"default": {"type": "number"}, "enum": {"enum": [1]}}}
    assert described(odd)["properties"] == {
        "default": {"type": "number", "format": "double"},
        "enum": {"enum": [1]},
    }

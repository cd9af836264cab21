"""The JSON Schema of a handler's payload, for the registration of its task type.

It says what the handler's own types say, and accepts whatever they are written as. Members that are
not parameters are refused by it, as they are where a task is submitted with the handler itself.
"""

import re
from typing import Any

import msgspec

from gnomon.sdk.values import is_model

_REFERENCE = "#/$defs/{name}"
_ANY = {"description": "Any JSON value"}
_NULL = {"type": "null"}

# Formats that mean the same to the writer and to the checker. Of the others some are unknown to the
# checker (decimal), and some are written in ways that it refuses: a naive time, half a second, an
# address with an umlaut.
_FORMATS = frozenset({"date", "ipv4", "ipv6", "uuid"})
# Look-around and back-references, which the checker refuses.
_UNUSABLE = re.compile(r"\(\?[=!<]|\\[1-9]")

_BY_NAME = ("properties", "patternProperties", "dependentSchemas", "$defs")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = (
    "items",
    "additionalProperties",
    "not",
    "contains",
    "propertyNames",
    "if",
    "then",
    "else",
)


def payload_schema(title: str, kind: Any, *, parameters: bool, optional: bool) -> dict[str, Any]:
    """One document, with everything that it refers to. `kind` is the type of the payload.
    `parameters`: it is an object of them, and nothing else. `optional`: it may be left out."""
    models: dict[str, Any] = {}

    def of_class(found: Any) -> dict[str, Any]:
        return _ANY if found is object else _model(found, models)

    (root,), components = msgspec.json.schema_components(
        [kind], schema_hook=of_class, ref_template=_REFERENCE
    )
    if parameters:
        root = components.pop(root["$ref"].rpartition("/")[2])
        root["additionalProperties"] = False
        root["type"] = ["object", "null"] if optional else "object"
    elif optional:
        root = {"anyOf": [root, _NULL]}
    definitions = components | models
    document = {**root, "title": title} | ({"$defs": definitions} if definitions else {})
    usable: dict[str, Any] = _usable(document)
    return usable


def _model(model: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """A model of pydantic's. Its own definitions move to the top, under names of their own."""
    assert is_model(model), "no other class is read from JSON"
    name = f"{model.__module__}.{model.__qualname__}".replace("<locals>", "local")
    schema: dict[str, Any] = model.model_json_schema(ref_template=f"#/$defs/{name}.{{model}}")
    for inner, definition in schema.pop("$defs", {}).items():
        definitions[f"{name}.{inner}"] = definition
    return schema


def _usable(schema: Any) -> Any:
    """A schema without what the checker of payloads cannot use; types are left as they are."""
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for word, value in schema.items():
        if word == "format" and value not in _FORMATS:
            continue
        if word == "pattern" and _UNUSABLE.search(value):
            continue
        if word in _BY_NAME:
            kept[word] = {name: _usable(each) for name, each in value.items()}
        elif word in _LISTS:
            kept[word] = [_usable(each) for each in value]
        else:
            kept[word] = _usable(value) if word in _SINGLE else value
    return kept

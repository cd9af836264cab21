"""The schemas of the OpenAPI document, so that generated clients have good types and names.

msgspec describes Python types as JSON Schema; generators of clients need some things said in
another way, or said twice.
"""

import inspect
import json
from collections.abc import Iterator
from typing import Any

_REF = "#/components/schemas/"


def tidy(components: dict[str, Any]) -> dict[str, Any]:
    """The same schemas, as generators of clients understand them."""
    found = {name: described(schema) for name, schema in components.items()}
    unions = {name: union for schema in found.values() for name, union in _unions(schema)}
    return {**{name: _with_unions(schema) for name, schema in found.items()}, **unions}


def described(schema: Any) -> Any:
    """With the type of enums, which msgspec leaves out; with doubles, which are floats in Go
    without a format; and without defaults, which a generator for TypeScript takes for fields that
    are always there: they are told in words."""
    if isinstance(schema, list):
        return [described(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {
        name: {key: _field(value) for key, value in inner.items()}
        if name == "properties"
        else described(inner)
        for name, inner in schema.items()
        if name not in ("enum", "default", "examples", "required")
    }
    changed |= {name: schema[name] for name in ("enum", "default", "required") if name in schema}
    if all(isinstance(value, str) for value in schema.get("enum", (None,))):
        changed["type"] = "string"
    if schema.get("type") == "number":
        changed.setdefault("format", "double")
    if isinstance(schema.get("description"), str):
        changed["description"] = inspect.cleandoc(schema["description"])
    return changed


def _field(schema: dict[str, Any]) -> Any:
    changed = described(schema)
    default = changed.pop("default", None)
    if default is not None and default not in ([], {}):
        told = f"Default: {json.dumps(default)}"
        known = changed.get("description")
        changed["description"] = told if known is None else f"{known}. {told}"
    return changed


def reference(name: str) -> dict[str, str]:
    return {"$ref": f"{_REF}{name}"}


def _unions(schema: Any) -> Iterator[tuple[str, Any]]:
    """The unions of tagged types in a schema, by the name that their types have in common."""
    if isinstance(schema, list):
        for each in schema:
            yield from _unions(each)
    elif isinstance(schema, dict):
        if "discriminator" in schema:
            name = _common_name(schema)
            yield name, {"title": name, **schema}
        for each in schema.values():
            yield from _unions(each)


def _with_unions(schema: Any) -> Any:
    """A schema that names the unions of tagged types in it."""
    if isinstance(schema, list):
        return [_with_unions(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "discriminator" in schema:
        return reference(_common_name(schema))
    return {name: _with_unions(each) for name, each in schema.items()}


def _common_name(union: dict[str, Any]) -> str:
    """Target, of HttpTarget and PythonTarget."""
    names: list[str] = [each["$ref"].removeprefix(_REF) for each in union["anyOf"]]
    length = 0
    while len({name[-length - 1 :] for name in names}) == 1 and length < min(map(len, names)):
        length += 1
    return names[0][len(names[0]) - length :]

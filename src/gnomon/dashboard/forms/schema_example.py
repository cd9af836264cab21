"""An example of a payload, made from the JSON Schema of its task type: a start, not a promise."""

import json
from collections.abc import Mapping
from typing import Any

_DEEPEST = 8
_MOST_PARTS = 200
_FORMATS = {
    "date-time": "2030-01-31T12:00:00Z",
    "date": "2030-01-31",
    "time": "12:00:00Z",
    "email": "name@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
    "hostname": "example.com",
}


class _Enough(Exception):
    pass


def example_of(schema: bytes) -> str | None:
    """JSON for a form, with two spaces a level; None where the schema says nothing."""
    try:
        whole = json.loads(schema)
        if not isinstance(whole, Mapping) or not whole:
            return None
        return json.dumps(_Making(whole).value(whole, 0), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError, _Enough):
        return None


class _Making:
    def __init__(self, whole: Mapping[str, Any]) -> None:
        self._whole = whole
        self._left = _MOST_PARTS

    def value(self, schema: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            raise _Enough
        if not isinstance(schema, Mapping):
            return None
        for name in ("default", "const"):
            if name in schema:
                return schema[name]
        for name in ("examples", "enum"):
            if isinstance(given := schema.get(name), list) and given:
                return given[0]
        if isinstance(ref := schema.get("$ref"), str):
            return self.value(self._at(ref), depth + 1)
        for name in ("anyOf", "oneOf", "allOf"):
            if isinstance(given := schema.get(name), list) and given and "type" not in schema:
                return self.value(given[0], depth + 1)
        return self._of_type(schema, depth)

    def _of_type(self, schema: Mapping[str, Any], depth: int) -> Any:
        kind = schema.get("type")
        kind = kind[0] if isinstance(kind, list) and kind else kind
        match kind:
            case "object":
                return self._object(schema, depth)
            case None if "properties" in schema:
                return self._object(schema, depth)
            case "array":
                least = schema.get("minItems", 0)
                number = 1 if least or "items" in schema else 0
                return [self.value(schema.get("items", {}), depth + 1) for _ in range(number)]
            case "string":
                return _FORMATS.get(str(schema.get("format")), "")
            case "integer" | "number":
                return schema.get("minimum", 0)
            case "boolean":
                return False
        return None

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping):
            return {}
        required = schema.get("required")
        # All of them where the schema asks for none: a reader sees what there may be.
        wanted = required if isinstance(required, list) and required else list(properties)
        known = [name for name in properties if name in wanted]
        return {name: self.value(properties[name], depth + 1) for name in known}

    def _at(self, ref: str) -> Any:
        """What a pointer within the schema leads to."""
        if not ref.startswith("#"):
            return None
        found: Any = self._whole
        for step in ref[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        return found

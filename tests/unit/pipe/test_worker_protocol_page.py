"""The page of the worker protocol has the schemas of its messages, and its examples fit them."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from gnomon.pipe.http.schemas import MESSAGES, document, text

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "worker-protocol.md"
EXAMPLES = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_page_has_the_schemas_of_the_messages() -> None:
    assert EXAMPLES[-1].rstrip("\n") == text(), "print them: python -m gnomon.pipe.http.schemas"
    assert {kind.__name__ for kind in MESSAGES} <= document()["$defs"].keys()


@pytest.mark.parametrize(
    ("place", "name"), [(place, kind.__name__) for place, kind in enumerate(MESSAGES[:4])]
)
def test_the_examples_fit_the_schemas(place: int, name: str) -> None:
    example = _filled(json.loads(EXAMPLES[place]))
    schema = document() | {"$ref": f"#/$defs/{name}"}
    for delivery in example.get("deliveries", ()):  # the page shows some of its fields only
        properties = schema["$defs"]["DeliveredTask"]["properties"]
        assert delivery.keys() <= properties.keys()
    example["deliveries"] = []
    if "deliveries" not in schema["$defs"][name]["properties"]:
        del example["deliveries"]
    jsonschema_rs.validator_for(schema).validate(example)


def _filled(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: "00000000-0000-7000-8000-000000000000"
            if key in ("task_id", "session_id")
            else _filled(inner)
            for key, inner in value.items()
        }
    return [_filled(each) for each in value] if isinstance(value, list) else value

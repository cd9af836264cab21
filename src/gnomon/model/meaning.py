"""What JSON means, however it is written."""

import json
from typing import Any


def meaning_of(text: bytes) -> Any:
    """Equal for JSON that means the same. Numbers stay as they are written, because no type of
    ours holds all of them."""
    return json.loads(text, parse_int=_number, parse_float=_number)


def _number(text: str) -> Any:
    return {"number": text}

"""The worker protocol as JSON Schema: `python -m gnomon.pipe.http.schemas` prints it."""

import json
import sys
from typing import Any

import msgspec

from gnomon.pipe.http.messages import (
    BeatAnswer,
    Poll,
    PollAnswer,
    SessionOpened,
    SessionOpening,
)

MESSAGES = (SessionOpening, SessionOpened, Poll, PollAnswer, BeatAnswer)


def document() -> dict[str, Any]:
    """All messages, and what they are made of, by name."""
    _, components = msgspec.json.schema_components(MESSAGES, ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Gnomon worker protocol",
        "$defs": components,
    }


def text() -> str:
    return json.dumps(document(), indent=1, ensure_ascii=False)


if __name__ == "__main__":
    sys.stdout.write(text() + "\n")

"""The errors that an operation says it may answer with."""

from typing import Any

import msgspec
import pytest

from gnomon.access.principal import Role
from gnomon.api.http.document.operation import Operation

PLAIN = Operation("POST", "/", name="do", summary="Do", role=None, answers={200: None})


class Body(msgspec.Struct):
    """A body, or a query."""


@pytest.mark.parametrize(
    ("declared", "errors"),
    [
        ({}, {500}),
        ({"errors": (404,)}, {404, 500}),
        ({"role": Role.READ}, {401, 403, 429, 500, 503}),
        ({"body": Body}, {400, 408, 413, 415, 422, 500, 503}),
        ({"query": Body}, {422, 500}),
        ({"grows": True}, {500, 507}),
        ({"keyed": True}, {409, 422, 500}),
        ({"keyed": True, "answers": {200: None, 409: None}}, {422, 500}),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else "",
)
def test_each_part_adds_its_errors(declared: dict[str, Any], errors: set[int]) -> None:
    assert msgspec.structs.replace(PLAIN, **declared).statuses == sorted(errors)

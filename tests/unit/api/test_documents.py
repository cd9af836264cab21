"""The OpenAPI document is made when it is first asked for, and holds up nobody."""

import asyncio
from threading import get_ident
from types import SimpleNamespace
from typing import Any

from gnomon.api.http.document.documents import openapi_json
from gnomon.api.http.document.openapi import made_once


async def test_it_is_made_once_in_another_thread() -> None:
    makers: list[int] = []

    def make() -> bytes:
        makers.append(get_ident())
        return b"{}"

    state = SimpleNamespace(openapi=made_once(make))
    request: Any = SimpleNamespace(app=SimpleNamespace(state=state))
    asked: Any = openapi_json.fn
    assert not makers
    answers = await asyncio.gather(*(asked(request) for _ in range(20)))
    assert {each.content for each in answers} == {b"{}"}
    assert len(makers) == 1
    assert makers[0] != get_ident()

"""What every answer tells a browser."""

import aiohttp
import pytest
from tests.integration.api_calls import BODY, TASKS

Api = aiohttp.ClientSession
EXPECTED = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", TASKS, 200),
        ("POST", TASKS, 202),
        ("GET", "/nothing", 404),
        ("PUT", TASKS, 405),
        ("GET", "/healthz", 200),
        ("GET", "/metrics", 200),
        ("GET", "/api/v1/openapi.json", 200),
        ("GET", "/api/v1/docs", 200),
    ],
)
async def test_nothing_is_kept_framed_or_guessed_at(
    api: Api, method: str, path: str, status: int
) -> None:
    body = BODY if method == "POST" else None
    async with api.request(method, path, json=body) as answer:
        assert answer.status == status
        assert {name: answer.headers[name] for name in EXPECTED} == EXPECTED
        policies = answer.headers.getall("Content-Security-Policy")
    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none';")
    assert "frame-ancestors 'none'" in policies[0]

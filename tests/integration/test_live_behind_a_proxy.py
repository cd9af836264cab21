"""Pages behind nginx: events come through at once, and a session works as without it."""

from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from tests.conftest import serving
from tests.integration.api_calls import LATER, call
from tests.integration.identity import bearer, make_key
from tests.integration.test_behind_a_proxy import SETTINGS
from tests.integration.test_dashboard import shown, signed_in
from tests.integration.test_live import watching
from tests.reverse_proxy import X_FORWARDED_FOR, proxied

from gnomon.store.postgres.database import Database


async def test_a_live_page_behind_nginx(
    database_dsn: str, database: Database, tmp_path: Path
) -> None:
    _, key = await make_key(database)
    settings = {
        **SETTINGS,
        "api_address_requests_per_second": 100.0,
        "auth_enabled": True,
        "targets_allow": ("127.0.0.0/8",),
    }
    async with serving(database_dsn, **settings) as api:
        upstream = urlsplit(str(api._base_url)).netloc
        with proxied(upstream, X_FORWARDED_FOR, tmp_path) as url:
            async with (
                aiohttp.ClientSession(url) as outside,
                signed_in(outside, key) as browser,
                watching(browser, "tasks") as stream,
            ):
                await stream.says("tasks")
                body = LATER | {"name": "through a proxy"}
                await call(api, "POST", "/api/v1/tasks", 202, body, headers=bearer(key))
                await stream.says("tasks")
                assert "through a proxy" in await shown(browser, "/tasks?fragment=1")

"""What an app submits to, decided at first use: an address, a database, or what this folder runs.

1. `Gnomon(url=...)`, else GNOMON_URL: over HTTP;
2. else DATABASE_URL: straight to that database, by the API's application in this process;
3. else the `gnomon up` of this folder, by the address that it keeps in its data directory;
4. else the address in the settings, http://127.0.0.1:8080 by default.
"""

import os
from pathlib import Path
from typing import Protocol
from uuid import UUID

from gnomon.client.client import TIMEOUT_SECONDS, Client, SyncClient, key_of, url_of
from gnomon.client.http import ApiServer
from gnomon.sdk.submitting import local_address
from gnomon.sdk.submitting.direct import AsyncDirectTransport, DirectAccess, DirectTransport
from gnomon.settings import Settings, load_with_sources

DIRECT_URL = "http://direct"  # no address: requests are handed over within the process
_ADVICE = "start one with `gnomon up` in this folder, or set GNOMON_URL or DATABASE_URL"
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where to connect instead


class RunWaits(Protocol):
    """Is told before the end of a workflow run is waited for."""

    async def before(self, run_id: UUID) -> None: ...

    def before_sync(self, run_id: UUID) -> None: ...


class Link:
    """The clients of an app, and what is behind them."""

    def __init__(
        self,
        server: ApiServer,
        advice: str | None = None,
        direct: DirectAccess | None = None,
        run_waits: RunWaits | None = None,
    ) -> None:
        self.run_waits = run_waits
        self.client = Client.of(server, advice)
        self.sync_client = SyncClient.of(server, advice)
        self._direct = direct

    async def close(self) -> None:
        """Closes the connections of this event loop, those of synchronous calls, and the
        application of this process."""
        await self.client.close()
        self.close_sync()

    def close_sync(self) -> None:
        self.sync_client.close()
        if self._direct is not None:
            self._direct.close()


def connect(url: str | None, key: str | None, tenant_id: str) -> Link:
    """Decides what to submit to. Nothing is opened yet."""
    if url or os.environ.get("GNOMON_URL") or os.environ.get("GNOMON_API_URL"):
        return Link(ApiServer(url_of(url), key_of(key), TIMEOUT_SECONDS))
    file = os.environ.get("GNOMON_SETTINGS")
    settings, sources = load_with_sources(os.environ, Path(file) if file else None)
    if settings.database.url is not None:
        return _direct(settings, tenant_id, sources["database", "url"])
    found = local_address.found(Path(settings.database.data_dir))
    key = key or settings.api.key
    if found is not None:
        return Link(ApiServer(url_of(found), key, TIMEOUT_SECONDS))
    return Link(ApiServer(_default(settings), key, TIMEOUT_SECONDS), _ADVICE)


def _direct(settings: Settings, tenant_id: str, source: str) -> Link:
    access = DirectAccess(settings, tenant_id, source)
    server = ApiServer(
        DIRECT_URL,
        None,
        TIMEOUT_SECONDS,
        DirectTransport(access),
        AsyncDirectTransport(access),
    )
    return Link(server, direct=access)


def _default(settings: Settings) -> str:
    host = _EVERYWHERE.get(settings.api.host, settings.api.host)
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.api.port}"

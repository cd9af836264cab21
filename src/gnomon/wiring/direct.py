"""What a program that submits straight to the database runs: see `gnomon.sdk.submitting.direct`."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import structlog
from litestar.types import ASGIApp

from gnomon.access.principal import TENANT_ROLES, Principal
from gnomon.clock import SystemClock
from gnomon.settings import Settings
from gnomon.wiring.api import direct_api
from gnomon.wiring.processes import prepare


@asynccontextmanager
async def direct(settings: Settings, tenant_id: str) -> AsyncIterator[ASGIApp]:
    """The application on the database of the settings, which is prepared as by every process."""
    dsn = settings.database.url
    assert dsn is not None
    _keep_stdout()
    await prepare(settings.database.direct_url or dsn, settings.targets.webhook_secret)
    by = Principal(tenant_id=tenant_id, name=None, roles=TENANT_ROLES)
    async with direct_api(settings, dsn, SystemClock(), by) as application:
        yield application


def _keep_stdout() -> None:
    """stdout is the program's. Where it has not configured structlog, our lines go to stderr, and
    its own stay where they are."""
    if not structlog.is_configured():
        structlog.configure(logger_factory=_logger)


def _logger(*names: Any) -> Any:
    ours = bool(names) and str(names[0]).partition(".")[0] == "gnomon"
    return structlog.PrintLogger(sys.stderr if ours else sys.stdout)

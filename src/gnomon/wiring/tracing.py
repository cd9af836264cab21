"""The tracing of a process, where its settings ask for it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from gnomon.extras import TRACING
from gnomon.observe.events import Observer, SpanResult, SpansEnded
from gnomon.settings import SettingsError, TracingSettings

if TYPE_CHECKING:
    from gnomon.observe.tracing import Tracing


@asynccontextmanager
async def traced(settings: TracingSettings, emit: Observer) -> AsyncIterator["Tracing | None"]:
    """None: it is off. Spans that wait at the end are sent, within a bounded time. Raises
    SettingsError."""
    if not settings.is_on:
        yield None
        return
    try:
        from gnomon.observe.tracing import Tracing
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"tracing.exporter is {settings.exporter!r}, which needs OpenTelemetry: {TRACING}"
        ) from error
    loop = asyncio.get_running_loop()

    def told(result: SpanResult, number: int) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(emit, SpansEnded(result, number))

    tracing = Tracing(settings, told)
    try:
        yield tracing
    finally:
        await asyncio.shield(asyncio.to_thread(tracing.close))

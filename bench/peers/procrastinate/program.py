"""Procrastinate's side: several workers in one process, for each fetches one job at a time."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import uvloop
from bench.functions import CallRecorder
from bench.peers.python_program import Offer, Work, command, offer_all, work_until_told
from procrastinate import App, PsycopgConnector  # type: ignore[import-not-found]

TASK = "noop"


async def install(url: str) -> None:
    async with App(connector=PsycopgConnector(conninfo=url)).open_async() as app:
        await app.schema_manager.apply_schema_async()


async def work(asked: Work) -> None:
    settings = asked.settings
    app = _app(asked.url, settings["connections"])

    async def run(recorder: CallRecorder) -> None:
        @app.task(name=TASK)  # type: ignore[untyped-decorator]
        async def noop(n: int) -> None:
            recorder.note(n)

        await asyncio.gather(*(_worker(app, settings) for _ in range(settings["workers"])))

    async with app.open_async():
        await work_until_told(asked, run)


def _worker(app: App, settings: dict[str, Any]) -> Any:
    return app.run_worker_async(
        concurrency=settings["concurrency"],
        fetch_job_polling_interval=settings["poll_ms"] / 1000,
        delete_jobs=settings["delete_jobs"],
        install_signal_handlers=False,
    )


async def load(offer: Offer) -> None:
    app = _app(offer.url, offer.connections)

    async def enqueue(place: int, numbers: Sequence[int], due: datetime | None) -> None:  # noqa: ARG001
        task = app.configure_task(TASK, schedule_at=due)
        if len(numbers) == 1:
            await task.defer_async(n=numbers[0])
        else:
            await task.batch_defer_async(*({"n": number} for number in numbers))

    async with app.open_async():
        await offer_all(offer, enqueue)


def _app(url: str, connections: int) -> App:
    return App(connector=PsycopgConnector(conninfo=url, min_size=connections, max_size=connections))


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    uvloop.run(command(install, work, load))

"""`gnomon relay`: submits what a program has left in an outbox of its own database."""

import os
from typing import Annotated

import typer

from gnomon.cli.run.processes import serve
from gnomon.cli.shared import output
from gnomon.cli.shared.database import EXAMPLE_URL, is_postgres_url
from gnomon.cli.shared.options import ApiUrl, settings_of
from gnomon.cli.shared.output import CommandFailed
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.settings import Settings

VARIABLE = "OUTBOX_URL"  # no option: a URL with a password would be seen by all on the machine
Ddl = Annotated[bool, typer.Option("--ddl", help="Print the table, and end.")]
Tenant = Annotated[
    str, typer.Option("--tenant", metavar="TENANT", help="Whose tasks they are, without a key.")
]


def relay(
    ctx: typer.Context,
    ddl: Ddl = False,
    tenant: Tenant = DEFAULT_TENANT,
    api: ApiUrl = None,
) -> None:
    """Submit the tasks of an outbox until SIGTERM or Ctrl-C: over HTTP, or with DATABASE_URL
    straight to Gnomon's database.

    The outbox is the table gnomon_outbox in a database that is not Gnomon's. Tasks are submitted in
    their order, at least once, with a key that makes them one task. Of several relays one works.

    \b
    gnomon relay --ddl
    OUTBOX_URL=postgresql://localhost/shop gnomon relay
    """
    if ddl:
        from gnomon.outbox import DDL

        output.echo(f"{DDL};")
        return
    outbox = os.environ.get(VARIABLE)
    if outbox is None or not is_postgres_url(outbox):
        raise CommandFailed(f"{VARIABLE} must be like {EXAMPLE_URL}: the database with the outbox")
    settings = settings_of(ctx)
    serve(_run(settings, outbox, api, tenant))


async def _run(settings: Settings, dsn: str, api: str | None, tenant: str) -> None:
    import asyncio
    import signal

    import structlog

    from gnomon.clock import SystemClock
    from gnomon.observe import logging
    from gnomon.relay.outbox_reader import OutboxReader
    from gnomon.relay.relay import Relay
    from gnomon.sdk.submitting.connect import connect

    logging.configure(settings.output)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    reader, link = OutboxReader(dsn), connect(api, settings.api.key, tenant)
    try:
        async with asyncio.TaskGroup() as group:
            relaying = group.create_task(Relay(reader, link.client, SystemClock()).run())
            structlog.get_logger().info("relay started")
            await stop.wait()
            relaying.cancel()
    finally:
        await reader.close()
        await link.close()

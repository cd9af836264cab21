"""The app of the workers, and the programs that submit to it.

As a program: `python -m proof.exactly_once.shop DSN FIRST LAST` makes a transaction for each
number; every second one is rolled back. With OUTBOX_URL its tasks go to an outbox there.
"""

import os
import sys
from typing import Any

import psycopg

from gnomon import Gnomon, TaskContext, outbox

SLOTS = 16  # of the counter: all increments of one row would wait for each other

app = Gnomon()


@app.task(delivery="exactly_once", transactional=True, retries=1000)
async def increment(ctx: TaskContext, number: int) -> None:
    await ctx.connection.execute(
        "UPDATE shop.counter SET n = n + 1 WHERE slot = $1", number % SLOTS
    )
    await ctx.connection.execute("INSERT INTO shop.incremented VALUES ($1)", number)


@app.task(delivery="exactly_once", transactional=True, retries=1000)
async def deliver(ctx: TaskContext, sale: int) -> None:
    await ctx.connection.execute("INSERT INTO shop.delivered VALUES ($1)", sale)


def sell(connection: "psycopg.Connection[Any]", sale: int, *, by_outbox: bool) -> None:
    """A sale and the task that belongs to it, in one transaction."""
    connection.execute("INSERT INTO shop.sale VALUES (%s)", [sale])
    if by_outbox:
        outbox.put(connection, deliver.prepare(sale))
    else:
        deliver.options(connection=connection).submit_sync(sale)
    if sale % 2:
        connection.rollback()
    else:
        connection.commit()


def main(dsn: str, first: int, last: int) -> None:
    by_outbox = "OUTBOX_URL" in os.environ
    with psycopg.connect(os.environ.get("OUTBOX_URL", dsn)) as connection:
        done = connection.execute(
            "SELECT max(id) FROM shop.sale WHERE id BETWEEN %s AND %s", [first, last]
        ).fetchone()
        connection.rollback()
        for sale in range(first if done is None or done[0] is None else done[0] + 1, last + 1):
            sell(connection, sale, by_outbox=by_outbox)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

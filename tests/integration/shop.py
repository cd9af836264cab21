"""An app whose handlers tests submit to."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from datetime import date

from gnomon import Gnomon

app = Gnomon()
gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)


@dataclass
class Receipt:
    user_id: str
    sent_on: date


@app.task
async def send_email(user_id: str, on: date = date(2030, 1, 31)) -> Receipt:
    return Receipt(user_id, on)


@app.task(retries=0)
def divide(dividend: float, divisor: float) -> float:
    return dividend / divisor


@app.task
async def wait_at_the_gate(name: str) -> str:
    await gates[name].wait()
    return f"passed {name}"


@app.task
async def return_a_lot() -> str:
    return "x" * 100_000

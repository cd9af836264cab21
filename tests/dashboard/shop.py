"""The work of a shop, for pages that have something to show."""

import asyncio
from typing import Any

from gnomon.sdk.app import Gnomon
from gnomon.sdk.executing.context import TaskContext

app = Gnomon()


class CardDeclined(Exception):
    """The bank said no."""


@app.task
async def send_invoice(payload: Any) -> Any:
    return {"sent": True, "message_id": f"<{payload['order']}@shop.example>"}


@app.task
async def reindex_products(payload: Any) -> Any:
    return {"products": 1_204}


@app.task
async def charge_card(payload: Any) -> Any:
    if payload["order"] % 3 == 0:
        raise CardDeclined(f"order {payload['order']}: the card was declined (insufficient funds)")
    return {"charged": True}


@app.task
async def sync_stock(payload: Any) -> None:
    await asyncio.sleep(0)
    raise ConnectionError(f"warehouse {payload['warehouse']}: connection refused")


@app.task
async def encode_video(payload: Any, ctx: TaskContext) -> None:
    """Is never done: somebody looks at it while it runs."""
    ctx.progress(0.62, "scene 31 of 50")
    await asyncio.Event().wait()


@app.task
async def fail_as_told(payload: Any) -> None:
    raise RuntimeError(payload["error"])

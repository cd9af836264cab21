"""An order: reserve, charge, then ship and notify side by side; what fails is undone.

gnomon up --app order:app
gnomon workflows start order order_id=o-1 items:='["tea", "pot"]' --watch
gnomon workflows start order order_id=o-2 items:='["anvil"]' --watch
"""

from dataclasses import dataclass, field

from gnomon import Gnomon

app = Gnomon()


@dataclass
class Shop:
    """The world outside: stock, a bank and parcels, by order."""

    stock: dict[str, int] = field(default_factory=lambda: {"tea": 10, "pot": 3, "anvil": 1})
    reserved: dict[str, list[str]] = field(default_factory=dict)
    charged: dict[str, int] = field(default_factory=dict)
    parcels: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)


shop = Shop()
PRICES = {"tea": 499, "pot": 1999, "anvil": 9999}


@dataclass
class Reservation:
    order_id: str
    cents: int


@app.task(retries=3)
async def reserve(order_id: str, items: list[str]) -> Reservation:
    if order_id not in shop.reserved:  # a task may run twice: it reserves once
        for item in items:
            shop.stock[item] -= 1
        shop.reserved[order_id] = items
    return Reservation(order_id, sum(PRICES[item] for item in items))


@app.task(retries=10)
async def release(order_id: str) -> None:
    for item in shop.reserved.pop(order_id, []):
        shop.stock[item] += 1


@app.task(retries=3)
async def charge(order_id: str, cents: int) -> str:
    shop.charged[order_id] = cents
    return f"receipt-{order_id}"


@app.task(retries=10)
async def refund(order_id: str, receipt: str) -> None:
    if receipt == f"receipt-{order_id}":
        shop.charged.pop(order_id, None)


@app.task(retries=0)
async def ship(order_id: str, items: list[str]) -> str:
    if "anvil" in items:
        raise ValueError("an anvil is too heavy for a parcel")
    shop.parcels.append(order_id)
    return f"parcel-{order_id}"


@app.task(retries=2)
async def notify(order_id: str, receipt: str) -> None:
    shop.told.append(f"{order_id}: {receipt}")


@app.workflow(fail_fast=True, deadline="1 day")
def order(order_id: str, items: list[str]) -> str:
    reserved = reserve.step(order_id, items)
    reserved.compensate(release, order_id)
    charged = charge.step(order_id, reserved.output.cents)
    charged.compensate(refund, order_id, charged.output)
    shipped = ship.step(order_id, items).after(charged)
    notify.step(order_id, charged.output).on_failure("skip")
    return shipped.output

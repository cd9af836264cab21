"""A remote worker, as small as the worker protocol allows, for the tests of gateways."""

from typing import Any

from tests.integration.api_calls import Api, call

SESSIONS = "/api/v1/worker-sessions"


class TestedWorker:
    """One session, driven by hand: it says nothing by itself."""

    __test__ = False

    def __init__(self, api: Api, opened: dict[str, Any], headers: dict[str, str]) -> None:
        self.api = api  # of the gateway that it speaks to; any other will do
        self.id = opened["session_id"]
        self.tenant_id = opened["tenant_id"]
        self.headers = headers | {"gnomon-session-secret": opened["secret"]}
        self.epoch = opened["epoch"]
        self.opened = opened
        self.sequence = 0
        self.slots = 0
        self.held: dict[str, dict[str, Any]] = {}  # deliveries that are not acknowledged
        self.reports: dict[str, dict[str, Any]] = {}
        self.answer: dict[str, Any] = {}

    async def poll(self, slots: int | None = None, wait: float = 0.0, **more: Any) -> Any:
        """The next poll; what it says is taken in."""
        self.sequence += 1
        return self.take(await self.ask(self.body(slots, wait) | more))

    def body(self, slots: int | None = None, wait: float = 0.0) -> dict[str, Any]:
        return {
            "sequence": self.sequence,
            "slots": self.slots - len(self.held) if slots is None else slots,
            "wait_seconds": wait,
            "epoch": self.epoch,
            "held": [_claim(each) for each in self.held.values()],
            "reports": list(self.reports.values()),
        }

    async def ask(self, body: dict[str, Any], status: int = 200) -> Any:
        path = f"{SESSIONS}/{self.id}/poll"
        return await call(self.api, "POST", path, status, body, headers=self.headers)

    def take(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Process an answer, as a worker does."""
        self.answer, self.epoch = answer, answer["epoch"]
        for delivery in answer["deliveries"]:
            self.held[delivery["task_id"]] = delivery
        for receipt in answer["acknowledged"]:
            self.held.pop(receipt["task_id"], None)
            self.reports.pop(receipt["task_id"], None)
        return answer

    async def next(self, slots: int = 1, wait: float = 10.0, polls: int = 10) -> dict[str, Any]:
        """One delivery, however many polls that takes."""
        for _ in range(polls):
            if (await self.poll(slots, wait))["deliveries"]:
                delivery: dict[str, Any] = self.answer["deliveries"][0]
                return delivery
        raise AssertionError(f"nothing was delivered: {self.answer}")

    def report(self, delivery: dict[str, Any], outcome: str = "succeeded", **more: Any) -> None:
        """Say it with the next poll."""
        self.reports[delivery["task_id"]] = _claim(delivery) | {"outcome": outcome} | more

    async def settle(
        self, delivery: dict[str, Any], outcome: str = "succeeded", **more: Any
    ) -> bool:
        """Report, until that is acknowledged; gives whether it was accepted."""
        self.report(delivery, outcome, **more)
        for _ in range(10):
            for receipt in (await self.poll(0, 10.0))["acknowledged"]:
                if receipt["task_id"] == delivery["task_id"]:
                    return bool(receipt["accepted"])
        raise AssertionError("it was not acknowledged")

    async def beat(self, status: int = 200) -> Any:
        path = f"{SESSIONS}/{self.id}/beat"
        return await call(self.api, "POST", path, status, headers=self.headers)

    async def leave(self, status: int = 204) -> None:
        path = f"{SESSIONS}/{self.id}"
        await call(self.api, "DELETE", path, status, headers=self.headers)


async def opened(
    api: Api,
    handlers: tuple[str, ...] = ("mail",),
    slots: int = 4,
    headers: dict[str, str] | None = None,
    **more: Any,
) -> TestedWorker:
    """A worker with a new session."""
    body = {"name": "remote-1", "handlers": list(handlers), "slots": slots} | more
    answer = await call(api, "POST", SESSIONS, 201, body, headers=headers or {})
    worker = TestedWorker(api, answer, headers or {})
    worker.slots = slots
    return worker


def task_for(task_type: str = "mail", **more: Any) -> dict[str, Any]:
    """A task that a handler of this type runs."""
    target = {"type": "python", "function": task_type}
    return {"task_type": task_type, "target": target, "payload": {"n": 1}} | more


def _claim(delivery: dict[str, Any]) -> dict[str, Any]:
    return {"task_id": delivery["task_id"], "fence": delivery["fence"]}

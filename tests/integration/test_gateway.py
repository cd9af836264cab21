"""Remote workers through a gateway: the worker protocol over real HTTP."""

from tests.integration.api_calls import TASKS, Api, call, submitted
from tests.integration.remote_workers import SESSIONS, opened, task_for
from tests.integration.support import Connection


async def test_a_task_runs_on_a_session(api: Api, connection: Connection) -> None:
    worker = await opened(api)
    task = await submitted(api, task_for(payload={"to": "x"}))
    delivery = await worker.next()
    assert (delivery["task_id"], delivery["payload"]) == (task["task_id"], {"to": "x"})
    assert (delivery["attempt"], delivery["asks"]) == (1, False)
    row = await connection.fetchrow("SELECT state, node, fence FROM gnomon.task")
    assert row is not None
    assert (row["state"], str(row["node"]), row["fence"]) == (1, worker.id, delivery["fence"])
    assert await worker.settle(delivery, result={"sent": 1})
    done = await call(api, "GET", f"{TASKS}/{task['task_id']}", 200)
    assert (done["status"], done["result"]) == ("COMPLETED", {"sent": 1})
    await worker.beat()
    await worker.leave()
    await worker.leave()
    await worker.beat(410)
    await worker.ask(worker.body(), 410)


async def test_a_failure_is_tried_again(api: Api) -> None:
    worker = await opened(api)
    retry = {"max_retries": 1, "backoff": "fixed", "base_seconds": 0.0}
    task = await submitted(api, task_for(retry_policy=retry))
    assert await worker.settle(await worker.next(), "failed", error="no", traceback="Trace")
    again = await worker.next()
    assert (again["task_id"], again["attempt"]) == (task["task_id"], 2)
    assert await worker.settle(again, "failed", error="never")
    dead = await call(api, "GET", f"{TASKS}/{task['task_id']}", 200)
    assert (dead["status"], dead["last_error"]) == ("DEAD_LETTERED", "never")


async def test_a_poll_waits_until_something_is_due(api: Api) -> None:
    worker = await opened(api)
    await submitted(api, task_for(delay_seconds=0.5))
    delivery = await worker.next(wait=15.0, polls=2)
    assert delivery["task_type"] == "mail"
    await worker.settle(delivery)
    assert (await worker.poll(1, 0.1))["deliveries"] == []
    assert SESSIONS.endswith("worker-sessions")

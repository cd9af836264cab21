"""The pages of workflows over HTTP: runs with their graph, and what can be done with them."""

from tests.integration.api_calls import Api, call
from tests.integration.batch_calls import open_batch, put, task
from tests.integration.nodes import running_node
from tests.integration.test_dashboard import origin_of, posted, shown
from tests.integration.workflow_calls import RUNS, failing, node, once, read, start

HERE = "/workflow-runs"


async def test_a_run_is_drawn_with_its_nodes(api: Api) -> None:
    run = await start(api, {"a": node(), "b": node("x", "a"), "c": node("x", "a", "b")})
    text = await shown(api, f"{HERE}/{run['run_id']}")
    assert text.count('class="edge"') == 3
    for each in run["nodes"]:
        assert f'href="/tasks/{each["task_id"]}"' in text
    assert "3 nodes: 1 ready, 2 blocked" in text
    assert "waits for its next node" in text
    assert f"{HERE}/{run['run_id']}" in await shown(api, HERE)
    task = await shown(api, f"/tasks/{run['nodes'][1]['task_id']}")
    assert f'href="{HERE}/{run["run_id"]}"' in task


async def test_a_run_is_paused_resumed_and_cancelled(api: Api) -> None:
    run = await start(api, {"a": node(), "b": node("x", "a")})
    here = f"{HERE}/{run['run_id']}"
    assert f"{here}/resume" not in await shown(api, here)
    await posted(api, f"{here}/pause")
    assert (await read(api, run))["status"] == "PAUSED"
    await posted(api, f"{here}/resume")
    assert (await read(api, run))["status"] == "RUNNING"
    await posted(api, f"{here}/cancel", {"interrupt": "1"})
    assert (await read(api, run))["status"] in ("CANCELLING", "CANCELLED")
    assert f"{here}/cancel" not in await shown(api, here)


async def test_what_holds_a_run_up_is_named(api: Api, database_dsn: str) -> None:
    run = await start(api, {"a": node(), "broken": failing("x", "a"), "c": node("x", "broken")})
    async with running_node(database_dsn):
        await once(api, run, "FAILED")
    text = await shown(api, f"{HERE}/{run['run_id']}")
    assert "held up by broken" in text
    assert 'id="gantt"' in text
    assert "1 completed, 1 dead letter, 1 blocked" in text


async def test_a_workflow_is_drawn_started_and_deleted(api: Api) -> None:
    assert "There is no workflow yet" in await shown(api, "/workflows")
    nodes = {"a": node(), "c": node("{{run.input.who}}", "a")}
    definition = {"name": "order", "nodes": nodes, "edges": [["a", "c"]]}
    await call(api, "POST", "/api/v1/workflows", 201, definition)
    assert 'href="/workflows/order"' in await shown(api, "/workflows")
    text = await shown(api, "/workflows/order")
    assert text.count('class="edge"') == 1
    assert "It has not run yet" in text
    wrong = await api.post(
        "/workflows/order/start", data={"input": "{"}, headers=origin_of(api), allow_redirects=False
    )
    assert wrong.status == 422
    assert "the input is not JSON" in await wrong.text()
    answer = await posted(api, "/workflows/order/start", {"input": '{"who": "me"}'})
    run = await shown(api, answer.headers["location"])
    assert 'href="/workflows/order"' in run
    assert "who" in run
    assert "2 nodes: 1 ready, 1 blocked" in run
    assert await shown(api, f"{HERE}?workflow=order") != await shown(api, f"{HERE}?workflow=none")
    await posted(api, "/workflows/order/delete")
    assert "There is no workflow yet" in await shown(api, "/workflows")
    await shown(api, "/workflows/order", 404)
    assert "2 nodes" in await shown(api, answer.headers["location"].partition("?")[0])


async def test_runs_are_found_by_their_status(api: Api) -> None:
    run = await start(api, {"a": node()})
    assert run["run_id"] in await shown(api, f"{HERE}?status=RUNNING")
    assert run["run_id"] not in await shown(api, f"{HERE}?status=SUCCEEDED")
    assert "No run matches" in await shown(api, f"{HERE}?workflow=none")
    answer = await api.get(f"{HERE}?status=odd")
    assert answer.status == 422
    assert 'role="alert"' in await answer.text()


async def test_a_graph_that_is_too_large_is_a_table(api: Api) -> None:
    run = await start(api, {f"n{number}": node() for number in range(200)})
    text = await shown(api, f"{HERE}/{run['run_id']}")
    assert "too large to be drawn" in text
    assert text.count('<tr id="node-') == 200
    assert (await call(api, "GET", f"{RUNS}/{run['run_id']}", 200))["status"] == "RUNNING"


async def test_a_batch_shows_its_progress_and_its_tasks(api: Api) -> None:
    assert "There is no batch yet" in await shown(api, "/batches")
    batch = await open_batch(api, name="<pictures>", on_complete=task())
    await put(api, batch, task(), task(delay_seconds=3600))
    here = f"/batches/{batch['batch_id']}"
    listed = await shown(api, "/batches?status=OPEN")
    assert f'href="{here}"' in listed
    assert "&lt;pictures&gt;" in listed
    text = await shown(api, here)
    assert "It is open" in text
    assert "0 of 2" in text
    assert f"batch%3A{batch['batch_id']}" in text
    members = await shown(api, f"/tasks?q=batch:{batch['batch_id']}")
    assert members.count('href="/tasks/0') >= 3, "and the callback"
    assert f'href="{here}"' in await shown(api, f"/tasks/{batch['on_complete']}")
    await posted(api, f"{here}/close")
    assert "waits for 2 of its tasks" in await shown(api, here)
    await posted(api, f"{here}/cancel")
    assert "It is being cancelled. (cancelled)" in await shown(api, here)

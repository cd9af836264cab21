"""The page of tasks over HTTP: pages both ways, columns, views, and acting on selected tasks."""

import re
from collections.abc import AsyncIterator
from html import unescape
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote, urlencode

import pytest
from tests.conftest import serving
from tests.integration.api_calls import LATER, TASKS, Api, call, put, submitted
from tests.integration.identity import bearer, make_key, make_tenant
from tests.integration.test_dashboard import HOSTILE, posted, shown, signed_in

from gnomon.access.principal import Role
from gnomon.store.postgres.database import Database

if TYPE_CHECKING:
    import asyncpg

Connection: TypeAlias = "asyncpg.Connection[Any]"


QUOTED = """a "b" <i> '\\'"""


def ids_on(text: str) -> list[str]:
    return re.findall(r'<tr id="r-([0-9a-f-]{36})"', text)


def link(text: str, name: str) -> str | None:
    found = re.search(rf'href="([^"]*)"[^>]*>{name}</a>', text)
    return None if found is None else unescape(found[1])


async def many(api: Api, number: int, **fields: Any) -> list[str]:
    """So many tasks, newest first."""
    body = {"tasks": [LATER | fields for _ in range(number)]}
    made = await call(api, "POST", f"{TASKS}/batch", 202, body)
    return sorted((each["task_id"] for each in made["tasks"]), reverse=True)


async def test_older_and_newer_pages_meet(api: Api) -> None:
    tasks = await many(api, 120, tags=["x"])
    columns = "&columns=status,task,tags"
    seen, path = [], f"/tasks?q=tag:x{columns}"
    while path:
        text = await shown(api, path)
        seen.append(ids_on(text))
        path = link(text, "Older") or ""
        assert not path or "columns=status%2Ctask%2Ctags" in path
    assert [each for part in seen for each in part] == tasks
    assert [len(each) for each in seen] == [50, 50, 20]
    back = link(text, "Newer")
    assert back is not None
    async with api.get(back) as answer:  # by a redirect to the place of that page
        middle = await answer.text()
        assert "cursor=" in str(answer.url)
    assert ids_on(middle) == seen[1]
    back = link(middle, "Newer")
    assert back is not None
    async with api.get(back) as answer:
        assert ids_on(await answer.text()) == seen[0]
        assert "cursor" not in str(answer.url)
    assert link(text, "Newest") == "/tasks?q=tag%3Ax&columns=status%2Ctask%2Ctags"
    assert link(seen_first := await shown(api, "/tasks?q=tag:x"), "Newer") is None, seen_first


async def test_the_part_that_is_live_is_the_list_alone(api: Api) -> None:
    tasks = await many(api, 3, tags=["x"])
    text = await shown(api, "/tasks?q=tag:x&columns=task,tags&fragment=1")
    assert ids_on(text) == tasks
    assert text.strip().startswith('<div id="live-part"')
    assert "<option" not in text
    assert "fragment" not in text


async def test_columns_are_chosen_in_the_address(api: Api) -> None:
    await submitted(api, LATER | {"queue": "post", "tags": ["a"]})
    plain = await shown(api, "/tasks")
    assert '<th scope="col">Last error</th>' in plain
    text = await shown(api, "/tasks?columns=queue&columns=tags&columns=%3Cb%3E")
    titles = re.findall(r'<th scope="col"(?: class="num")?>([^<]*)</th>', text)
    assert titles == ["Task", "Queue", "Tags"]
    assert "post" in text
    assert 'name="columns" value="task,queue,tags"' in text


async def test_what_is_there_completes_a_filter(api: Api) -> None:
    await submitted(
        api, LATER | {"task_type": "send mail", "tags": [QUOTED, HOSTILE], "queue": "post"}
    )
    text = await shown(api, "/tasks")
    options = [unescape(each) for each in re.findall(r'<option value="([^"]*)">', text)]
    assert {'type:"send mail"', "queue:post", "status:READY", "tag:"} <= set(options)
    assert "error:" not in options
    (tag,) = [each for each in options if each.startswith('tag:"')]
    assert len(ids_on(await shown(api, "/tasks?" + urlencode({"q": tag})))) == 1


async def test_each_selected_task_has_its_own_result(api: Api, connection: Connection) -> None:
    waiting, ended = await many(api, 2)
    await put(connection, waiting, "state = 1, fence = fence + 1")
    gone = "019a0000-0000-7000-8000-000000000000"
    chosen = {f"t-{each}": "on" for each in (waiting, ended, gone)}
    headers = {"Origin": str(api._base_url).rstrip("/")}
    async with api.post(
        "/tasks/selected", data=chosen | {"action": "cancel", "q": "tag:x"}, headers=headers
    ) as answer:
        text = unescape(await answer.text())
    assert answer.status == 200
    assert "Cancel: 1 of 3 selected tasks" in text
    assert text.count("Refused:") == 2
    assert f"there is no task {gone}" in text or "not found" in text
    assert 'href="/tasks?q=tag%3Ax"' in text
    assert (await call(api, "GET", f"{TASKS}/{ended}", 200))["status"] == "CANCELLED"
    assert (await call(api, "GET", f"{TASKS}/{waiting}", 200))["status"] == "RUNNING"
    both = {"action": "cancel", "interrupt": "on"}
    assert (await posted(api, "/tasks/selected", chosen | both)).status == 200
    assert (await call(api, "GET", f"{TASKS}/{waiting}", 200))["cancel_requested"]


@pytest.mark.parametrize("action", ["pause", "resume", "retry", "delete", "reschedule"])
async def test_every_action_on_selected_tasks(
    api: Api, connection: Connection, action: str
) -> None:
    (task_id,) = await many(api, 1)
    if action == "resume":
        await put(connection, task_id, "state = 2")
    if action == "retry":
        await put(connection, task_id, "state = 4, due_at = gnomon.now()")
    form = {"action": action, f"t-{task_id}": "on", "execute_at": "2090-01-31T12:00"}
    assert (await posted(api, "/tasks/selected", form)).status == 200
    if action == "delete":
        await call(api, "GET", f"{TASKS}/{task_id}", 404)
        return
    task = await call(api, "GET", f"{TASKS}/{task_id}", 200)
    status = {"pause": "PAUSED", "resume": "SCHEDULED", "retry": "READY"}.get(action, "SCHEDULED")
    assert task["status"] == status
    assert (action == "reschedule") == task["execute_at"].startswith("2090-01-31T12:00:00")


async def test_a_selection_that_is_no_good_changes_nothing(api: Api) -> None:
    (task_id,) = await many(api, 1)
    for form, why in (
        ({"action": "delete"}, "select 1 to 50 tasks"),
        ({"action": "explode", f"t-{task_id}": "on"}, "is none of"),
        ({"action": "delete", "t-<b>": "on"}, "no id of a task"),
        ({"action": "reschedule", f"t-{task_id}": "on", "execute_at": "soon"}, "a time in UTC"),
    ):
        headers = {"Origin": str(api._base_url).rstrip("/")}
        async with api.post("/tasks/selected", data=form, headers=headers) as answer:
            text = await answer.text()
        assert answer.status == 422
        assert why in text
        assert "<b>" not in text
    assert f'name="t-{task_id}" value="on"' in text  # to try again, with what was typed
    assert 'value="soon"' in text


async def test_views_are_saved_shown_and_removed(api: Api) -> None:
    form = {"name": "Late <b>", "q": 'status:FAILED tag:"a b"', "columns": "status,task,due"}
    answer = await posted(api, "/tasks/views", form)
    assert answer.status == 303
    here = answer.headers["location"].replace("&done=view", "")
    text = await shown(api, answer.headers["location"])
    assert f'<a href="{here.replace("&", "&amp;")}" aria-current="true"' in text
    assert "Late &lt;b&gt;" in text
    (view,) = (await call(api, "GET", "/api/v1/saved-views", 200))["saved_views"]
    assert view["filter"] == {"status": "FAILED", "tag": "a b"}
    assert view["columns"] == ["status", "task", "due"]
    assert (await posted(api, "/tasks/views/remove", {"name": "Late <b>"})).status == 303
    assert (await posted(api, "/tasks/views/remove", {"name": "Late <b>"})).status == 404
    for wrong in ({"name": "a/b", "q": ""}, {"name": "", "q": ""}, {"name": "x", "q": "no filter"}):
        headers = {"Origin": str(api._base_url).rstrip("/")}
        async with api.post("/tasks/views", data=wrong, headers=headers) as refused:
            text = await refused.text()
        assert refused.status == 422
        assert 'id="wrong-view"' in text
        assert f'value="{wrong["name"]}"' in text
    assert (await call(api, "GET", "/api/v1/saved-views", 200))["saved_views"] == []


@pytest.fixture
async def guarded(database_dsn: str) -> AsyncIterator[Api]:
    allow = ("127.0.0.0/8",)
    async with serving(database_dsn, auth_enabled=True, targets_allow=allow) as client:
        yield client


async def test_a_reader_selects_nothing_and_each_tenant_sees_its_own(
    guarded: Api, database: Database
) -> None:
    await make_tenant(database, "other")
    _, mine = await make_key(database, name="me")
    _, theirs = await make_key(database, "other")
    _, reads = await make_key(database, name="reader", roles=[Role.READ])
    body = LATER | {"tags": ["secret-tag"]}
    task = await call(guarded, "POST", TASKS, 202, body, headers=bearer(mine))
    selected = {"action": "delete", f"t-{task['task_id']}": "on"}
    async with signed_in(guarded, mine) as browser:
        assert (await posted(browser, "/tasks/views", {"name": "mine", "q": ""})).status == 303
        assert 'name="t-' in await shown(browser, "/tasks")
    async with signed_in(guarded, theirs) as browser:
        text = await shown(browser, "/tasks")
        assert "secret-tag" not in text
        assert "mine" not in text
        async with browser.post("/tasks/selected", data=selected) as answer:
            assert "Delete: 0 of 1 selected tasks" in await answer.text()
        assert (await posted(browser, "/tasks/views/remove", {"name": "mine"})).status == 404
    async with signed_in(guarded, reads) as browser:
        text = await shown(browser, "/tasks")
        assert 'name="t-' not in text
        assert "by <bdi>me</bdi>" in text
        assert quote("/bulk-operations/new") not in text
        assert re.findall(r'method="post" action="([^"]+)"', text) == ["/sign-out"]
        assert (await posted(browser, "/tasks/selected", selected)).status == 403
    await call(guarded, "GET", f"{TASKS}/{task['task_id']}", 200, headers=bearer(mine))

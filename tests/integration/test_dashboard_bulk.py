"""The pages of bulk operations over HTTP: asking first, beginning, watching, stopping."""

import re
from collections.abc import AsyncIterator
from html import unescape
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

import pytest
from tests.conftest import serving
from tests.integration.api_calls import LATER, TASKS, Api, call, submitted
from tests.integration.bulk_calls import BULK, Stepper
from tests.integration.identity import make_key, make_tenant
from tests.integration.test_bulk_operations import dead_letters, fill
from tests.integration.test_dashboard import HOSTILE, posted, shown, signed_in

from gnomon.access.principal import Role
from gnomon.store.postgres.database import Database

if TYPE_CHECKING:
    import asyncpg

Connection: TypeAlias = "asyncpg.Connection[Any]"
HERE = "/bulk-operations"


def fields_of(text: str) -> dict[str, str]:
    """The hidden fields of the form that confirms."""
    form = text[text.index('<form class="confirm"') :]
    return {
        name: unescape(value)
        for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)
    }


async def begun(api: Api) -> list[Any]:
    found: list[Any] = (await call(api, "GET", BULK, 200))["bulk_operations"]
    return found


async def test_the_number_is_shown_confirmed_and_told_when_it_changed(
    api: Api, connection: Connection
) -> None:
    await fill(connection, 12, "HTTP 503", ago=1000)
    await fill(connection, 3, "other", ago=1000)
    address = f"{HERE}/new?action=retry&q={quote('error:503')}"
    text = await shown(api, address)
    assert "<strong>12</strong> tasks match" in text
    assert "Retry 12 tasks</button>" in text
    assert len(re.findall(r'href="/tasks/[0-9a-f-]{36}"', text)) == 5
    assert await begun(api) == []
    fields = fields_of(text)
    await fill(connection, 1, "HTTP 503", ago=1000)
    answer = await api.post(HERE, data=fields, headers={"Origin": str(api._base_url).rstrip("/")})
    again = await answer.text()
    assert answer.status == 409
    assert "<strong>12</strong> then, <strong>13</strong> now" in again
    assert await begun(api) == []
    fields = fields_of(again)
    for _ in range(2):  # a second press finds the first operation
        answer = await posted(api, HERE, fields)
        assert answer.status == 303
    (operation,) = await begun(api)
    assert answer.headers["location"] == f"{HERE}/{operation['operation_id']}"
    assert (operation["action"], operation["filter"], operation["total"]) == (
        "retry",
        {"error": "503"},
        13,
    )
    changed = await posted(api, HERE, fields | {"q": ""})
    assert changed.status == 422


async def test_progress_refusals_and_the_button_that_stops(
    api: Api, database: Database, connection: Connection
) -> None:
    await fill(connection, 100, ago=1000)
    fields = fields_of(await shown(api, f"{HERE}/new?action=archive&q="))
    here = (await posted(api, HERE, fields)).headers["location"]
    operation = {"operation_id": here.rpartition("/")[2]}
    stepper = Stepper(database)
    assert await stepper.chunk(operation, 30)
    text = await shown(api, here)
    assert 'data-topics="bulk"' in text
    assert '<progress aria-label="Progress" max="100" value="30">' in text
    assert (await posted(api, f"{here}/stop")).headers["location"] == f"{here}?done=stop"
    assert not await stepper.chunk(operation, 30)
    text = await shown(api, here)
    assert "It was stopped after 30 of 100 tasks." in text
    assert f'action="{here}/stop"' not in text
    assert await dead_letters(connection) == 70
    assert "30 of 100" in await shown(api, HERE)
    await shown(api, f"{HERE}/nonsense", 404)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("action=retry&q=status:COMPLETED", "retry is for tasks that are"),
        ("action=explode&q=", "choose what to do"),
        ("action=retry&q=colour:red", "nothing here is called"),
        ("action=cancel&q=before:soon", "before"),
        ("action=cancel&q=id:xyz", "id "),
    ],
)
async def test_wrong_input_is_told_beside_its_field(shared_api: Api, query: str, why: str) -> None:
    text = await shown(shared_api, f"{HERE}/new?{query}", 422)
    assert why in unescape(text)
    assert 'aria-invalid="true" aria-describedby="wrong"' in text
    assert '<form class="confirm"' not in text


async def test_a_refused_form_comes_back_with_what_was_typed(api: Api) -> None:
    await submitted(api)
    fields = fields_of(await shown(api, f"{HERE}/new?action=reschedule&q="))
    headers = {"Origin": str(api._base_url).rstrip("/")}
    for typed in ("soon", "9999-01-01T00:00"):
        async with api.post(HERE, data=fields | {"execute_at": typed}, headers=headers) as answer:
            text = await answer.text()
        assert answer.status == 422
        assert f'value="{typed}" aria-invalid="true"' in text
    assert (await posted(api, HERE, fields | {"expect": "many"})).status == 422
    answer = await posted(api, HERE, fields | {"execute_at": "2090-01-31T12:00"})
    assert answer.status == 303
    assert "2090-01-31 12:00:00" in await shown(api, answer.headers["location"])


async def test_hostile_text_is_shown_literally(api: Api, connection: Connection) -> None:
    await submitted(api, LATER | {"name": HOSTILE, "tags": [HOSTILE]})
    value = 'tag:"' + HOSTILE.replace('"', '\\"') + '"'
    text = await shown(api, f"{HERE}/new?action=delete&q={quote(value)}")
    assert "Delete 1 task</button>" in text
    here = (await posted(api, HERE, fields_of(text))).headers["location"]
    for page in (text, await shown(api, here), await shown(api, HERE)):
        assert "<script>alert" not in page
        assert "<script>alert(1)</script> ⟨U+202E⟩&amp;" in unescape(page)


@pytest.fixture
async def guarded(database_dsn: str) -> AsyncIterator[Api]:
    async with serving(database_dsn, auth_enabled=True) as client:
        yield client


async def test_only_who_may_operate_is_asked_and_each_sees_their_own(
    guarded: Api, database: Database, connection: Connection
) -> None:
    await make_tenant(database, "other")
    await fill(connection, 5, ago=1000)
    _, mine = await make_key(database)
    _, theirs = await make_key(database, "other")
    _, reads = await make_key(database, name="reader", roles=[Role.READ])
    _, blind = await make_key(database, name="blind", roles=[Role.OPERATE])
    async with signed_in(guarded, mine) as browser:
        text = await shown(browser, f"{HERE}/new?action=archive&q=")
        here = (await posted(browser, HERE, fields_of(text))).headers["location"]
    async with signed_in(guarded, theirs) as browser:
        await shown(browser, here, 404)
        assert (await posted(browser, f"{here}/stop")).status == 404
        assert here not in await shown(browser, HERE)
        assert "No task matches" in await shown(browser, f"{HERE}/new?action=archive&q=")
    async with signed_in(guarded, reads) as browser:
        assert f'action="{here}/stop"' not in await shown(browser, here)
        assert f"{HERE}/new" not in await shown(browser, HERE)
        await shown(browser, f"{HERE}/new?action=archive&q=", 403)
    async with signed_in(guarded, blind) as browser:
        await shown(browser, f"{HERE}/new?action=archive&q=", 403)
        assert (await posted(browser, HERE, fields_of(text))).status == 403


@pytest.mark.parametrize("name", ["status", "priority", "job", "after", "before"])
async def test_a_condition_of_nothing_is_not_a_filter_of_everything(api: Api, name: str) -> None:
    task_id = (await submitted(api))["task_id"]
    text = await shown(api, f"/bulk-operations/new?action=delete&q={name}:null", 422)
    assert task_id not in text
    form = {"action": "delete", "q": f"{name}:null", "expect": "1"}
    assert (await posted(api, "/bulk-operations", form)).status == 422


async def test_a_parameter_of_nothing_is_refused_by_the_api(api: Api) -> None:
    for path in (
        f"{TASKS}?status=null",
        f"{TASKS}?cron_job_id=null",
        "/api/v1/cron-jobs?paused=NULL",
    ):
        await call(api, "GET", path, 422)
    await call(api, "GET", f"{TASKS}?tag=null", 200)

"""The form that submits a task, over HTTP."""

import re
from datetime import UTC, datetime
from html import unescape
from typing import TYPE_CHECKING, Any

import aiohttp
from tests.integration.api_calls import LATER, TASKS, call, submitted
from tests.integration.identity import bearer, make_key, make_tenant
from tests.integration.quota_calls import give
from tests.integration.test_dashboard import guarded, posted, shown, signed_in

from gnomon.access.principal import Role
from gnomon.dashboard.forms import task_form
from gnomon.store.postgres.database import Database

if TYPE_CHECKING:
    import asyncpg

__all__ = ["guarded"]
Api = aiohttp.ClientSession
NEW = "/tasks/new"
HOSTILE = "<script>alert(1)</script> \u202e&amp; 'quoted' \"too\" {{ 7*7 }}"


def fields_in(text: str) -> dict[str, str]:
    """What the form of a page holds, as a browser would send it."""
    found = dict(task_form.BLANK)
    for tag in re.findall(r"<input\b[^>]*>", text):
        known = {name: unescape(value) for name, value in re.findall(r'(\w+)="([^"]*)"', tag)}
        if known.get("type") == "radio" and " checked" not in tag:
            continue
        found[known["name"]] = known["value"]
    for name, value in re.findall(
        r'<textarea[^>]* name="(\w+)"[^>]*>\n(.*?)</textarea>', text, re.DOTALL
    ):
        found[name] = unescape(value)
    for name, options in re.findall(
        r'<select[^>]* name="(\w+)"[^>]*>(.*?)</select>', text, re.DOTALL
    ):
        chosen = re.search(r'<option(?: value="([^"]*)")? selected>([^<]*)', options)
        if chosen is not None:
            found[name] = unescape(chosen[1] if chosen[1] is not None else chosen[2])
    return found


async def blank(api: Api, query: str = "") -> dict[str, str]:
    return fields_in(await shown(api, NEW + query))


async def sent(api: Api, form: dict[str, str]) -> tuple[int, str]:
    async with api.post(NEW, data=form, allow_redirects=False) as answer:
        return answer.status, answer.headers.get("location") or await answer.text()


async def made(api: Api, form: dict[str, str]) -> Any:
    status, where = await sent(api, form)
    assert status == 303, where
    assert where.endswith("?done=submit")
    return await call(api, "GET", f"{TASKS}/{where.split('/')[2].split('?')[0]}", 200)


async def test_a_task_of_the_form_is_that_of_the_api(api: Api) -> None:
    form = await blank(api) | {
        "task_type": "mail", "target": "webhook", "url": "http://127.0.0.1:9/a", "method": "PUT",
        "headers": "X-One: 1: 2\r\naccept: text/plain\r\n",
        "payload": ' {"n": 9223372036854775809} ',
        "when": "after", "delay": "1.5", "delay_unit": "hours", "priority": "HIGH", "queue": "q/1",
        "tags": "a, b\r\n\r\n<c>", "max_retries": "0", "jitter": "no", "timeout_seconds": "2.5",
        "delivery": "at_most_once", "name": "N", "idempotency_key": "mine",
        "keep_payload": "failed",
    }  # fmt: skip
    task = await made(api, form)
    assert task["target"] == {
        "type": "http", "url": "http://127.0.0.1:9/a", "method": "PUT",
        "headers": {"X-One": "***", "accept": "text/plain"},
    }  # fmt: skip
    assert task["payload"] == {"n": 9223372036854775809}
    assert (task["priority"], task["queue"], task["tags"]) == ("HIGH", "q/1", ["a, b", "<c>"])
    assert task["retry_policy"]["max_retries"] == 0
    assert task["retry_policy"]["jitter"] is False
    assert (task["timeout_seconds"], task["delivery"]) == (2.5, "at_most_once")
    assert (task["name"], task["idempotency_key"]) == ("N", "mine")
    created, due = (datetime.fromisoformat(task[name]) for name in ("created_at", "execute_at"))
    assert 5399 < (due - created).total_seconds() < 5401


async def test_a_time_is_of_the_chosen_zone(api: Api) -> None:
    form = await blank(api) | {"task_type": "t", "when": "at", "zone": "Europe/Berlin"}
    task = await made(api, form | {"at": "2090-07-01T12:00", "expires_at": "2090-07-01T13:00"})
    assert datetime.fromisoformat(task["execute_at"]) == datetime(2090, 7, 1, 10, tzinfo=UTC)
    assert datetime.fromisoformat(task["expires_at"]) == datetime(2090, 7, 1, 11, tzinfo=UTC)


async def test_one_form_makes_one_task(api: Api) -> None:
    form = await blank(api) | {"task_type": "t", "when": "after", "delay": "60"}
    first = await made(api, form)
    assert (await made(api, form))["task_id"] == first["task_id"]
    # Changed after it was sent: it is told, and the next press makes another one.
    status, text = await sent(api, form | {"queue": "other"})
    assert status == 409
    assert "has made a task already" in text
    again = fields_in(text)
    assert again["form_key"] != form["form_key"]
    second = await made(api, again)
    assert (second["queue"], second["task_id"] != first["task_id"]) == ("other", True)
    # A key of one's own that was used for something else is an error of its field.
    mine = await blank(api) | {
        "task_type": "t",
        "idempotency_key": "k",
        "when": "after",
        "delay": "9",
    }
    await made(api, mine)
    status, text = await sent(api, mine | {"delay": "10"})
    assert status == 422
    assert 'id="wrong-idempotency_key"' in text


MISTAKES: list[tuple[dict[str, str], str, str]] = [
    ({"task_type": ""}, "task_type", "length &gt;= 1"),
    ({"payload": '{"a":'}, "payload", "not JSON: Input data was truncated at line 1"),
    ({"payload": "[" * 5000 + "]" * 5000}, "payload", "nested"),
    ({"payload": '1}, "queue": {'}, "payload", "trailing characters"),
    ({"target": "webhook"}, "url", "https://example.com/hook"),
    ({"target": "webhook", "url": "ftp://x"}, "url", "must start with http"),
    ({"target": "webhook", "url": "http://x", "headers": "a b"}, "headers", "Name: value"),
    ({"target": "webhook", "url": "http://x", "headers": "host: x"}, "headers", "set by Gnomon"),
    ({"target": "webhook", "url": "http://x", "method": "EAT"}, "method", "one of POST"),
    ({"when": "after", "delay": "soon"}, "delay", "no number"),
    ({"when": "after", "delay": ""}, "delay", "is missing"),
    ({"when": "after", "delay": "-1"}, "delay", "&gt;= 0"),
    ({"when": "at", "at": "soon"}, "at", "2030-01-31T12:00"),
    ({"when": "at", "at": "2090-01-01T00:00", "zone": "Berlin"}, "zone", "Europe/Berlin"),
    ({"when": "at", "at": "2030-03-31T02:30", "zone": "Europe/Berlin"}, "at", "does not exist"),
    ({"when": "at", "at": "9999-12-31T23:59", "zone": "America/Lima"}, "at", "too far"),
    ({"priority": "URGENT"}, "priority", "CRITICAL, HIGH"),
    ({"tags": "x" * 101}, "tags", "100"),
    ({"max_retries": "1.5"}, "max_retries", "int"),
    ({"max_retries": "5000"}, "max_retries", "1000"),
    ({"jitter": "perhaps"}, "jitter", "yes, no"),
    ({"delivery": "at_most_once", "max_retries": "2"}, "max_retries", "must be 0"),
    ({"timeout_seconds": "nan"}, "timeout_seconds", "number"),
    ({"expires_at": "2001-01-01T00:00"}, "expires_at", "later than the start"),
    ({"idempotency_key": "x" * 256}, "idempotency_key", "255"),
]  # fmt: skip


async def test_a_mistake_stands_beside_its_field_and_nothing_is_lost(api: Api) -> None:
    start = await blank(api) | {"task_type": "t", "name": HOSTILE, "tags": HOSTILE}
    for typed, field, why in MISTAKES:
        status, text = await sent(api, start | typed)
        assert status == 422, typed
        beside = re.search(rf'id="wrong-{field}">(.*?)</span>(?=<|\n)', text, re.DOTALL)
        assert beside is not None, (typed, re.findall(r'id="wrong-\w+"', text))
        assert why in beside[1], typed
        assert fields_in(text) == start | typed
        assert "\u202e" not in text
        assert "<script>alert" not in text
    assert (await call(api, "GET", TASKS, 200))["tasks"] == []


async def test_the_schema_of_a_type_starts_the_payload_and_checks_it(api: Api) -> None:
    schema = {
        "type": "object", "required": ["to", "count"], "properties": {
            "to": {"type": "string", "format": "email"}, "count": {"type": "integer", "minimum": 3},
            "more": {"type": "array"}, "<script>": {"type": "string"},
        },
    }  # fmt: skip
    defaults = {"priority": "LOW", "queue": "mails", "timeout_seconds": 7}
    await call(api, "PUT", "/api/v1/task-types/m.x", 201, {"schema": schema, "defaults": defaults})
    text = await shown(api, f"{NEW}?task_type=m.x")
    form = fields_in(text)
    assert '<option value="m.x">' in text
    assert form["payload"] == '{\n  "to": "name@example.com",\n  "count": 3\n}'
    assert 'placeholder="mails"' in text
    assert "low (default)" in text
    assert "<script>&" not in text
    status, text = await sent(api, form | {"payload": '{"to": 1}'})
    assert status == 422
    assert "at /to: " in text
    assert "count" in text[text.index('id="wrong-payload"') :].partition("</div>")[0]
    task = await made(api, form)
    assert (task["priority"], task["queue"], task["timeout_seconds"]) == ("LOW", "mails", 7)
    # Without a script: the button that only looks keeps what was typed.
    status, text = await sent(
        api, await blank(api) | {"task_type": "m.x", "name": "N", "step": "type"}
    )
    assert (status, fields_in(text)["name"]) == (200, "N")
    assert fields_in(text)["payload"] == form["payload"]
    part = await shown(api, f"{NEW}?fragment=1&task_type=m.x")
    assert part.startswith('<div id="type-part"')


async def test_a_task_is_duplicated_with_changes(api: Api) -> None:
    payload = {HOSTILE: [2**63, "\u202e", "\u2028\x7f"]}
    original = await submitted(api, LATER | {
        "name": HOSTILE, "tags": [HOSTILE, "b"], "payload": payload, "priority": "LOW",
        "queue": "q", "timeout_seconds": 3, "retry_policy": {"max_retries": 1, "backoff": "fixed"},
        "target": {"type": "http", "url": "http://127.0.0.1:9/h?token=not-for-you",
                   "headers": {"accept": "x"}},
        "callback_url": None,
    })  # fmt: skip
    text = await shown(api, f"{NEW}?from={original['task_id']}")
    assert "not-for-you" not in text
    form = fields_in(text)
    assert form["from"] == original["task_id"]
    assert (await sent(api, form | {"url": "http://127.0.0.1:9/h", "from": "x"}))[0] == 422
    status, text = await sent(api, form)
    assert status == 422  # the secret is not known to the form
    assert "give the value itself" in text
    copy = await made(api, form | {"url": "http://127.0.0.1:9/h", "queue": "other"})
    assert copy["payload"] == payload
    assert copy["queue"] == "other"
    assert copy["retry_of"] == original["task_id"]
    assert f'href="/tasks/{copy["task_id"]}"' in await shown(api, f"/tasks/{original['task_id']}")
    same = ("name", "tags", "priority", "timeout_seconds", "retry_policy", "task_type", "delivery")
    assert {name: copy[name] for name in same} == {name: original[name] for name in same}


async def test_a_payload_of_256_kb_fits(api: Api) -> None:
    form = await blank(api) | {"task_type": "t", "when": "after", "delay": "60"}
    whole = '"' + "ü" * (128 * 1024 - 1) + '"'
    task = await made(api, form | {"payload": whole})
    assert task["payload"] == whole[1:-1]
    text = await shown(api, f"/tasks/new?from={task['task_id']}")
    assert fields_in(text)["payload"] == whole
    status, text = await sent(api, form | {"payload": whole[:-1] + 'ü"'})
    assert status == 413
    assert "at most 262144 are kept" in text
    assert fields_in(text)["payload"] == whole[:-1] + 'ü"'


async def test_who_may_submit(guarded: Api, database: Database) -> None:
    await make_tenant(database, "other")
    _, everything = await make_key(database)
    _, reads = await make_key(database, name="reader", roles=[Role.READ])
    _, submits = await make_key(database, name="submitter", roles=[Role.SUBMIT])
    _, theirs = await make_key(database, "other")
    task = await call(guarded, "POST", TASKS, 202, LATER, headers=bearer(everything))
    like = f"{NEW}?from={task['task_id']}"
    async with signed_in(guarded, reads) as browser:
        assert "New task" not in await shown(browser, "/tasks")
        await shown(browser, NEW, 403)
        assert (await posted(browser, NEW, {"task_type": "t"})).status == 403
    async with signed_in(guarded, theirs) as browser:
        await shown(browser, like, 404)
        await shown(browser, f"{NEW}?from=x", 404)
    async with signed_in(guarded, submits) as browser:
        await shown(browser, like, 403)
        form = await blank(browser) | {"task_type": "t"}
        status, text = await sent(browser, form)
        assert status == 200
        assert "was submitted" in text
    async with signed_in(guarded, everything) as browser:
        assert "New task" in await shown(browser, "/tasks")
        assert (await made_as(browser, everything, form))["created_by"] != "reader"


async def made_as(browser: Api, key: str, form: dict[str, str]) -> Any:
    form = await blank(browser) | {"task_type": form["task_type"]}
    status, where = await sent(browser, form)
    assert status == 303, where
    task_id = where.split("/")[2].split("?")[0]
    return await call(browser, "GET", f"{TASKS}/{task_id}", 200, headers=bearer(key))


async def test_a_quota_is_told_above_the_form(
    api: Api, connection: "asyncpg.Connection[Any]"
) -> None:
    await give(connection, api, scheduled_tasks=1)
    form = await blank(api) | {"task_type": "t", "when": "after", "delay": "60"}
    await made(api, form)
    status, text = await sent(api, form | {"form_key": "form-2"})
    assert status == 429
    assert "scheduled_tasks" in re.findall(r'role="alert".*?</div>', text, re.DOTALL)[0]
    assert fields_in(text) == form | {"form_key": "form-2"}

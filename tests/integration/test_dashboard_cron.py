"""The pages of recurring jobs over HTTP: what they show, take, refuse and keep."""

import re
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from tests.integration.api_calls import Api, call
from tests.integration.cron_calls import DAILY, JOBS, ago, created
from tests.integration.identity import bearer, make_key, make_tenant
from tests.integration.test_dashboard import guarded, origin_of, shown, signed_in

from gnomon.access.principal import Role
from gnomon.store.postgres.database import Database

__all__ = ["guarded"]

HOSTILE = "x <script>alert(1)<script> & 'q' \"Q\" ?#%25 {{ 7*7 }}"
NEW = {
    "name": "digest",
    "task_type": "mail",
    "kind": "cron",
    "cron_expression": "30 4 * * *",
    "timezone": "Europe/Berlin",
    "target_kind": "http",
    "callback_url": "http://127.0.0.1:9/hook",
    "callback_method": "POST",
    "payload_template": '{"n": 9007199254740993}',
    "overlap_policy": "queue",
    "missed_run_policy": "skip",
    "tags": "a\r\nb c",
    "jitter_seconds": "1.5",
    "action": "save",
}


async def sent(api: Api, path: str, form: dict[str, str]) -> tuple[int, str, str]:
    """Posts a form: the status, where it leads, and the page as text."""
    async with api.post(path, data=form, allow_redirects=False, headers=origin_of(api)) as answer:
        text = unescape(await answer.text())
        return answer.status, answer.headers.get("location", ""), text


def fields_of(page: str) -> dict[str, str]:
    """What a browser would send of the editor, if nothing were changed."""
    form = page[page.index('id="editor"') :]
    found = {
        name: unescape(value)
        for name, value in re.findall(r'<input[^>]* name="(\w+)"[^>]* value="([^"]*)"', form)
    }
    for name in ("kind", "target_kind", "preemptible"):
        found.pop(name, None)
    checked = r'type="(?:radio|checkbox)" name="(\w+)"[^>]*value="(\w+)"[^>]* checked'
    found |= dict(re.findall(checked, form))
    for name, rest in re.findall(r'<select id="f-\w+" name="(\w+)"(.*?)</select>', form, re.DOTALL):
        chosen = re.search(r'value="([^"]*)" selected', rest)
        found[name] = unescape(chosen[1]) if chosen else ""
    for name, text in re.findall(r'<textarea id="f-(\w+)"[^>]*>(.*?)</textarea>', form, re.DOTALL):
        found[name] = unescape(text)
    return found


async def test_the_list_shows_how_jobs_go(api: Api) -> None:
    await created(api, name="alpha", tags=["red"])
    await created(api, name="beta", cron_expression="0 9 * * MON-FRI", timezone="Asia/Tokyo")
    await call(api, "POST", f"{JOBS}/alpha/trigger", 202)
    await call(api, "POST", f"{JOBS}/beta/pause", 200, {"reason": "the bank"})
    text = await shown(api, "/cron")
    assert 'data-topics="cron"' in text
    assert "At 09:00, Monday to Friday (Asia/Tokyo)" in text
    assert "last 1 runs: 1 ready" in text
    assert "the bank" in text
    names = re.compile(r'<a href="/cron/[0-9a-f-]{36}"><bdi>(\w+)</bdi>')
    assert names.findall(text) == ["beta", "alpha"]
    for query, found in (("name=ALP", ["alpha"]), ("tag=red", ["alpha"]), ("paused=true", ["beta"]),
                         ("paused=false", ["alpha"]), ("name=none", [])):  # fmt: skip
        assert names.findall(await shown(api, f"/cron?{query}")) == found
    assert "paused" in await shown(api, "/cron?paused=maybe", 422)
    assert "No job matches." in await shown(api, "/cron?name=none")


async def test_many_jobs_come_in_pages(api: Api) -> None:
    for number in range(52):
        await created(api, name=f"job {number}")
    first = await shown(api, "/cron?name=job")
    older = re.search(r'href="(/cron\?name=job&amp;cursor=[^"]+)"', first)
    assert older is not None
    second = await shown(api, unescape(older[1]))
    seen = [re.findall(r'id="job-([0-9a-f-]{36})"', text) for text in (first, second)]
    assert [len(each) for each in seen] == [50, 2]
    assert not {*seen[0]} & {*seen[1]}


async def test_a_job_is_made_by_the_form(api: Api) -> None:
    assert "New recurring job" in await shown(api, "/cron/new")
    status, location, _ = await sent(api, "/cron/new", NEW)
    assert (status, location.split("?")[1]) == (303, "done=job_created")
    job = await call(api, "GET", f"{JOBS}/digest", 200)
    assert (job["cron_expression"], job["timezone"]) == ("30 4 * * *", "Europe/Berlin")
    assert (job["overlap_policy"], job["missed_run_policy"]) == ("queue", "skip")
    assert (job["tags"], job["jitter_seconds"]) == (["a", "b c"], 1.5)
    assert job["payload_template"] == {"n": 9007199254740993}
    assert job["retry_policy"]["max_retries"] == 3
    assert "At 04:30 every day (Europe/Berlin)" in await shown(api, location)
    # Once more, and by an interval and for a handler.
    status, _, text = await sent(api, "/cron/new", NEW)
    assert (status, "choose another name" in text) == (409, True)
    other = NEW | {"name": "tick", "kind": "interval", "interval_seconds": "90",
                   "interval_from": "00:30", "target_kind": "handler"}  # fmt: skip
    assert (await sent(api, "/cron/new", other))[0] == 303
    job = await call(api, "GET", f"{JOBS}/tick", 200)
    assert (job["cron_expression"], job["interval_seconds"]) == (None, 90)
    assert job["target"] == {"type": "python", "function": "mail"}


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("cron_expression", "0 9 * *", "has 4 fields"),
        ("cron_expression", "* * * * *" * 30, "characters"),
        ("timezone", "Berlin", "Europe/Berlin"),
        ("payload_template", '{"a": }', "is not JSON"),
        ("payload_template", "[" * 100_000, "is nested too deeply"),
        ("jitter_seconds", "soon", "must be a number"),
        ("max_runs", "1.5", "int"),
        ("max_runs", "1e400", "must be a number"),
        ("max_runs", "1e300", ""),
        ("sla_seconds", "-1", ">= 0.001"),
        ("start_date", "tomorrow", "must be a time"),
        ("callback_url", "ftp://a", "http"),
        ("name", "a/b", "must not contain /"),
        ("name", "\u202eevil", "control characters"),
        ("overlap_policy", "maybe", "use one of"),
        ("backfill_limit", "3", "backfill"),
    ],
)
async def test_a_refused_form_keeps_what_was_typed(
    shared_api: Api, field: str, value: str, told: str
) -> None:
    status, _, text = await sent(shared_api, "/cron/new", NEW | {field: value})
    assert status == 422
    problem = re.search(rf'id="problem-{field}">([^<]*)<', text)
    assert problem is not None
    assert told in problem[1]
    typed = {name: given for name, given in NEW.items() if name not in (field, "action")}
    assert 'value="digest"' in text or field == "name"
    assert typed.get("callback_url", "") in text
    assert '{"n": 9007199254740993}' in text or field == "payload_template"
    await call(shared_api, "GET", f"{JOBS}/digest", 404)


async def test_an_untouched_editor_changes_nothing(api: Api) -> None:
    for fields in (
        {"name": "a", "payload_template": {"a\u202eb": ["\u200b", 2**63]}, "tags": ["x\u2066y"]},
        {"name": "b", "callback_url": None, "target": {
            "type": "http", "url": "http://127.0.0.1:9/?key=secret",
            "headers": {"authorization": "Bearer secret"}}},
        {"name": HOSTILE, "callback_url": None, "start_date": "2026-01-01T00:00:00Z"},
        {"name": "c", "cron_expression": None, "interval_seconds": 3600, "sla_seconds": 0.25},
    ):  # fmt: skip
        body = {name: value for name, value in (DAILY | fields).items() if value is not None}
        job = await call(api, "POST", JOBS, 201, body)
        here = f"/cron/{job['cron_job_id']}"
        page = await shown(api, f"{here}/edit")
        assert "=secret" not in page
        assert "Bearer secret" not in page
        status, location, text = await sent(api, f"{here}/edit", fields_of(page))
        assert (status, location) == (303, f"{here}?done=job_changed"), text
        assert await call(api, "GET", f"{JOBS}/{job['cron_job_id']}", 200) == job


async def test_an_edit_changes_what_was_edited(api: Api) -> None:
    job = await created(api, tags=["a"], payload_template={"a": 1})
    here = f"/cron/{job['cron_job_id']}"
    form = fields_of(await shown(api, f"{here}/edit"))
    changes = {"kind": "interval", "interval_seconds": "7200", "tags": "", "payload_template": "",
               "target_kind": "handler", "max_retries": "9", "name": "renamed"}  # fmt: skip
    assert (await sent(api, f"{here}/edit", form | changes))[0] == 303
    changed = await call(api, "GET", f"{JOBS}/renamed", 200)
    assert (changed["cron_expression"], changed["interval_seconds"]) == (None, 7200)
    assert (changed["tags"], changed["payload_template"]) == ([], None)
    assert changed["target"] == {"type": "python", "function": "mail"}
    assert changed["retry_policy"] == job["retry_policy"] | {"max_retries": 9}


async def test_an_edit_that_meets_another_is_refused_with_both(api: Api) -> None:
    job = await created(api)
    here = f"/cron/{job['cron_job_id']}/edit"
    form = fields_of(await shown(api, here)) | {"timezone": "Asia/Tokyo"}
    await call(api, "PATCH", f"{JOBS}/report", 200, {"timezone": "Asia/Seoul"})
    status, _, text = await sent(api, here, form)
    assert status == 409
    assert "Somebody else has changed this job meanwhile" in text
    assert "Asia/Seoul" in text
    assert "Asia/Tokyo" in text
    assert (await call(api, "GET", f"{JOBS}/report", 200))["timezone"] == "Asia/Seoul"
    assert (await sent(api, here, fields_of(text)))[0] == 303
    assert (await call(api, "GET", f"{JOBS}/report", 200))["timezone"] == "Asia/Tokyo"


async def test_a_preview_without_a_script_keeps_the_form(api: Api) -> None:
    form = NEW | {"action": "preview", "cron_expression": "15 6 * * SUN"}
    status, _, text = await sent(api, "/cron/new", form)
    assert (status, "At 06:15 on Sunday (Europe/Berlin)" in text) == (200, True)
    assert 'value="15 6 * * SUN"' in text
    await call(api, "GET", f"{JOBS}/digest", 404)


async def test_the_preview_says_what_is_wrong_and_what_may_surprise(api: Api) -> None:
    def path(expression: str, **more: str) -> str:
        given = {"kind": "cron", "cron_expression": expression, "timezone": "UTC"} | more
        return "/cron/preview?" + "&".join(f"{n}={quote(v)}" for n, v in given.items())

    text = unescape(await shown(api, path("0 0 13 * FRI")))
    assert "match the day of the month or the weekday" in text
    assert text.count("<li>") == 10
    assert "up to 86400 runs a day" in await shown(api, path("* * * * * *"))
    assert "has 1 field" in unescape(await shown(api, path("<script>")))
    assert "<script>" not in await shown(api, path("<script>", timezone="<script>"))
    assert "never fires again" in await shown(api, path("@daily", end_date="2001-01-01T00:00"))
    berlin = path("30 2 * * *", timezone="Europe/Berlin", start_date="2027-03-27T00:00")
    assert "does not exist, as clocks go from 02:00 to 03:00" in unescape(await shown(api, berlin))


async def test_a_backfill_is_counted_and_confirmed_by_its_number(api: Api) -> None:
    job = await created(api, **DAILY)
    here = f"/cron/{job['cron_job_id']}"
    days = {"from": f"{ago(5):%Y-%m-%dT%H:%M}", "to": f"{ago(2):%Y-%m-%dT%H:%M}"}
    counted = await shown(api, f"{here}/backfill?from={days['from']}&to={days['to']}")
    assert "Start 3 runs" in counted
    status, _, text = await sent(api, f"{here}/backfill", days | {"expect": "2"})
    assert (status, "2 runs were confirmed, and it would be 3 now" in text) == (409, True)
    assert (await call(api, "GET", f"{JOBS}/report/runs", 200))["runs"] == []
    confirmed = days | {"expect": "3", "definition_version": "1"}
    # As many fires of another schedule are others.
    await call(api, "PATCH", f"{JOBS}/report", 200, {"cron_expression": "30 5 * * *"})
    assert (await sent(api, f"{here}/backfill", confirmed))[0] == 409
    status, location, _ = await sent(
        api, f"{here}/backfill", confirmed | {"definition_version": "2"}
    )
    assert (status, location) == (303, f"{here}?done=backfill")
    runs = (await call(api, "GET", f"{JOBS}/report/runs", 200))["runs"]
    assert [run["kind"] for run in runs] == ["backfill"] * 3
    # The same form again starts nothing.
    again = confirmed | {"definition_version": "2"}
    assert (await sent(api, f"{here}/backfill", again))[0] == 409
    for wrong in ({"from": "x", "to": ""}, {"from": days["to"], "to": days["from"]}):
        await shown(api, f"{here}/backfill?from={wrong['from']}&to={wrong['to']}", 422)
    assert "future" in await shown(api, f"{here}/backfill?from={days['from']}&to=2198-01-01", 422)


async def test_runs_in_pages_and_by_status(api: Api) -> None:
    job = await created(api, overlap_policy="allow")
    for _ in range(3):
        await call(api, "POST", f"{JOBS}/report/trigger", 202)
    here = f"/cron/{job['cron_job_id']}/runs"
    assert (await shown(api, here)).count('id="run-') == 3
    assert (await shown(api, f"{here}?status=READY")).count('id="run-') == 3
    assert "No run has this status." in await shown(api, f"{here}?status=COMPLETED")
    await shown(api, f"{here}?cursor=nonsense", 422)


async def test_actions_that_are_refused_say_why_on_the_page(api: Api) -> None:
    job = await created(api)
    here = f"/cron/{job['cron_job_id']}"
    assert (await sent(api, f"{here}/trigger", {}))[0] == 303
    status, _, text = await sent(api, f"{here}/trigger", {})
    assert (status, "has not ended" in text) == (409, True)
    status, _, text = await sent(api, f"{here}/pause", {"reason": "long " * 300})
    assert (status, "long long" in text) == (422, True)
    assert (await sent(api, f"{here}/delete", {}))[1] == "/cron?done=job_deleted"
    await shown(api, here, 404)


async def test_hostile_names_are_found_and_shown_literally(api: Api) -> None:
    job = await created(api, name=HOSTILE, task_type=HOSTILE, tags=["<script>alert(2)"])
    for ref in (quote(HOSTILE, safe=""), job["cron_job_id"]):
        for path in (f"/cron/{ref}", f"/cron/{ref}/edit", f"/cron/{ref}/runs",
                     f"/cron/{ref}/backfill"):  # fmt: skip
            text = await shown(api, path)
            assert "<script>alert" not in text
            assert HOSTILE in unescape(text)
    status, location, _ = await sent(api, f"/cron/{quote(HOSTILE, safe='')}/pause", {})
    assert status == 303
    assert "Paused" in await shown(api, location.split("?done")[0])


async def test_roles_decide_what_is_offered_and_allowed(guarded: Api, database: Database) -> None:
    await make_tenant(database, "other")
    keys: dict[str, Any] = {
        "all": (await make_key(database))[1],
        "read": (await make_key(database, name="r", roles=[Role.READ]))[1],
        "submit": (await make_key(database, name="s", roles=[Role.SUBMIT]))[1],
        "operate": (await make_key(database, name="o", roles=[Role.OPERATE]))[1],
        "other": (await make_key(database, "other"))[1],
    }
    body = DAILY | {"callback_url": "http://127.0.0.1:9/?token=s3cret"}
    job = await call(guarded, "POST", JOBS, 201, body, headers=bearer(keys["all"]))
    here = f"/cron/{job['cron_job_id']}"
    editing = [f"{here}/edit", "/cron/new", f"{here}/backfill"]
    async with signed_in(guarded, keys["read"]) as browser:
        text = await shown(browser, here)
        assert not re.findall(r'action="/cron|href="[^"]*/(?:edit|backfill|new)"', text)
        assert "New job" not in await shown(browser, "/cron")
        for path in editing:
            await shown(browser, path, 403)
    for name in ("submit", "operate"):
        async with signed_in(guarded, keys[name]) as browser:
            for path in [*editing, here, "/cron/preview"]:
                await shown(browser, path, 403)
            # What is refused tells nothing of the job to who may not read.
            for action in ("edit", "pause", "trigger", "trigger"):
                _, _, text = await sent(browser, f"{here}/{action}", {"reason": "x" * 1001})
                assert "04:30" not in text
    async with signed_in(guarded, keys["other"]) as browser:
        for path in (here, f"{here}/edit", f"{here}/runs", f"{here}/backfill"):
            await shown(browser, path, 404)
        for action in ("edit", "pause", "resume", "trigger", "delete", "backfill"):
            assert (await sent(browser, f"{here}/{action}", {}))[0] in (404, 422)

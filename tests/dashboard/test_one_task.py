"""Stories about one task, in a real browser: submit it and watch it run; find why it waits."""

import asyncio
import re
from datetime import datetime

import aiohttp
from aiohttp import web
from playwright.async_api import Page, expect
from tests.dashboard.browsing import NARROW, Browsing, axe
from tests.dashboard.test_every_page import OVERFLOW
from tests.integration.api_calls import BODY, LATER, TASKS, call, submitted
from tests.integration.nodes import receiver_on, running_node

from gnomon.clock import SystemClock

Api = aiohttp.ClientSession
SOON = 20_000  # milliseconds, on a busy machine


async def now() -> datetime:
    return SystemClock().now()


async def test_submit_and_watch_it_run(page: Page, api: Api, database_dsn: str) -> None:
    release = asyncio.Event()

    async def slowly(_request: web.Request, number: int) -> web.StreamResponse:
        if number == 1:
            return web.Response(status=500, text="<b>not yet</b>")
        await release.wait()
        return web.Response(text="done")

    async with receiver_on(now) as receiver, running_node(database_dsn):
        receiver.answer = slowly
        await page.goto("/tasks")
        await page.get_by_role("link", name="New task").click()
        await page.get_by_label("Task type").fill("send_email")
        await page.get_by_label("by a call of a URL").check()
        await page.get_by_label("URL", exact=True).fill(receiver.url)
        await page.get_by_label("JSON").fill('{"big": 9223372036854775808}')
        await page.get_by_text("Retries, timeout, delivery and more").click()
        await page.get_by_label("First wait, seconds").fill("0.1")
        await page.get_by_role("button", name="Submit task").dblclick()
        await page.wait_for_url(re.compile(r"/tasks/[0-9a-f-]{36}\?done=submit"), timeout=SOON)
        await expect(page.get_by_text("The task was submitted.")).to_be_visible()
        # It is not loaded again: the page follows.
        here = page.locator(".state.here")
        await expect(here).to_contain_text("running", timeout=SOON)
        await expect(page.locator(".lead")).to_contain_text("It is running on")
        await expect(page.locator("#tries")).to_contain_text("not yet</b>", timeout=SOON)
        # The bar of what runs grows, though nothing says that anything has changed.
        running = page.locator("#gantt title", has_text="running").last
        first = await running.text_content()
        await expect(running).not_to_have_text(first or "", timeout=SOON)
        release.set()
        await expect(here).to_contain_text("completed", timeout=SOON)
        await expect(page.locator(".lead")).to_contain_text("It has completed, at attempt 2")
        await expect(page.locator("#live-part")).to_contain_text("9223372036854775808")
        assert len(receiver.calls) == 2
    assert len((await call(api, "GET", TASKS, 200))["tasks"]) == 1


async def test_find_why_a_task_waits(page: Page, api: Api, database_dsn: str) -> None:
    await call(api, "PUT", "/api/v1/limiters/bank", 201, {"task_type": "mail", "concurrency": 0})
    async with running_node(database_dsn):
        await submitted(api, BODY)
        await page.goto("/tasks?q=status:READY")
        await page.get_by_role("link", name="mail").click()
        await expect(page.locator(".lead")).to_contain_text(
            "limiter 'bank' is at its limit of 0", timeout=SOON
        )
        await expect(page.get_by_text("raise its limit")).to_be_visible()
        await page.get_by_role("list", name="What holds it up").get_by_role("link").click()
        await expect(page.get_by_role("heading", level=1)).to_contain_text("bank")
        await expect(page.get_by_text("bank").first).to_be_visible()


async def test_a_refused_form_comes_back_whole(page: Page, api: Api, browsing: Browsing) -> None:
    browsing.allow("status of 422")
    schema = {"schema": {"required": ["to"], "properties": {"to": {"type": "string"}}}}
    await call(api, "PUT", "/api/v1/task-types/mail", 201, schema)
    await page.goto("/tasks/new")
    await page.get_by_label("Task type").fill("mail")
    await page.get_by_label("Task type").press("Tab")
    # The type's example starts the payload.
    await expect(page.get_by_label("JSON")).to_have_value('{\n  "to": ""\n}', timeout=SOON)
    await page.get_by_label("JSON").fill('{"to": 7}')
    await page.get_by_role("button", name="Check and indent").click()
    await expect(page.get_by_label("JSON")).to_have_value('{\n  "to": 7\n}')
    await page.get_by_label("at a time").check()
    await page.get_by_role("combobox", name="Time zone").fill("Berlin")
    await page.get_by_label("At", exact=True).fill("2090-01-31T12:00")
    await page.get_by_role("button", name="Submit task").click()
    zone = page.get_by_role("combobox", name="Time zone")
    await expect(zone).to_have_attribute("aria-invalid", "true", timeout=SOON)
    await expect(page.locator("#wrong-zone")).to_contain_text("Europe/Berlin")
    assert await axe(page) == []
    await zone.fill("Europe/Berlin")
    await page.get_by_role("button", name="Submit task").click()
    await expect(page.locator("#wrong-payload")).to_contain_text("at /to", timeout=SOON)
    await expect(page.get_by_label("JSON")).to_have_value('{\n  "to": 7\n}')
    await page.emulate_media(color_scheme="dark")
    assert await axe(page) == []
    await page.set_viewport_size({"width": NARROW, "height": 900})
    assert await page.evaluate(OVERFLOW) == []
    await page.get_by_label("JSON").fill('{"to": "a"}')
    await page.get_by_role("button", name="Submit task").click()
    await page.wait_for_url(re.compile(r"\?done=submit"), timeout=SOON)
    await expect(page.locator(".moments")).to_contain_text("2090-01-31 11:00:00")


async def test_a_task_is_duplicated_moved_copied_and_deleted(
    page: Page, api: Api, browsing: Browsing
) -> None:
    task = await submitted(api, LATER | {"queue": "q/1", "payload": {"a": [1, {"b": "<i>"}]}})
    await page.goto(f"/tasks/{task['task_id']}")
    copy = page.get_by_role("button", name="Copy the id of the task")
    await copy.click()  # this browser lets no page at the clipboard: the old way is taken
    await expect(copy).to_have_text(re.compile("Copied|Press"))
    await page.get_by_role("link", name="Duplicate with changes").click()
    await expect(page.get_by_label("Queue")).to_have_value("q/1")
    await page.get_by_label("Queue").fill("q/2")
    await page.get_by_label("after a while").check()
    await page.get_by_label("After", exact=True).fill("5")
    await page.get_by_role("button", name="Submit task").click()
    await page.wait_for_url(re.compile(r"\?done=submit"), timeout=SOON)
    await expect(page.locator("dl").get_by_text("q/2")).to_be_visible()
    await page.get_by_text("Reschedule…").click()
    await page.get_by_role("button", name="In 10 minutes").click()
    await expect(page.get_by_text("Its time was changed.")).to_be_visible(timeout=SOON)
    assert await axe(page) == []
    await page.get_by_text("Delete…").click()
    await page.get_by_role("button", name="Delete", exact=True).click()
    await expect(page.get_by_text("The task was deleted.")).to_be_visible(timeout=SOON)
    assert len((await call(api, "GET", TASKS, 200))["tasks"]) == 1

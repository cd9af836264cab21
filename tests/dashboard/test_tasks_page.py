"""The page of tasks and bulk operations in a real browser, by keyboard and pointer."""

import re
from typing import Any

import aiohttp
import asyncpg
from playwright.async_api import expect
from tests.dashboard.browsing import Browsing, axe
from tests.integration.api_calls import LATER, call, submitted
from tests.integration.bulk_calls import BULK, Stepper
from tests.integration.test_bulk_operations import dead_letters, fill

from gnomon.store.postgres.database import Database

Api = aiohttp.ClientSession


async def test_a_filter_is_completed_by_keyboard(browsing: Browsing, api: Api) -> None:
    await submitted(api, LATER | {"task_type": "send mail", "tags": ["eu"]})
    await submitted(api, LATER | {"task_type": "other"})
    page = await browsing.open(api, "/tasks")
    field = page.get_by_role("combobox", name="Filter of tasks")
    offered = page.get_by_role("listbox").get_by_role("option")
    await field.press_sequentially("ty")
    await expect(offered).to_have_text(["type:"])
    await field.press("ArrowDown")
    await field.press("Enter")
    await expect(field).to_have_value("type:")
    await field.press_sequentially("se")
    await expect(offered).to_have_text(['type:"send mail"'])
    await field.press("ArrowDown")
    assert await field.get_attribute("aria-activedescendant") == "completing-0"
    assert await axe(page) == []
    await field.press("Enter")
    await expect(field).to_have_value('type:"send mail" ')
    await field.press_sequentially("t")
    # What is there already is not offered again.
    await expect(offered).to_have_text(["tag:"])
    await field.press("Escape")
    await expect(page.get_by_role("listbox")).to_be_hidden()
    await field.press("Backspace")
    await field.press("Enter")
    await expect(page.locator("tbody tr")).to_have_count(1)
    await expect(page.locator(".chips")).to_contain_text("send mail")


async def test_selected_tasks_are_changed_and_nothing_moves_meanwhile(
    browsing: Browsing, api: Api
) -> None:
    ids = [(await submitted(api))["task_id"] for _ in range(3)]
    page = await browsing.open(api, "/tasks")
    await expect(page.get_by_role("button", name=re.compile("^Pause"))).to_be_hidden()
    for task_id in ids[:2]:
        await page.get_by_role("checkbox", name=re.compile(task_id)).check()
    await expect(page.locator("#count")).to_have_text("2 selected")
    await submitted(api)  # which would be the first of the list
    await expect(page.locator("#live-note")).to_contain_text("Changes wait")
    await expect(page.locator("tbody tr")).to_have_count(3)
    assert await axe(page) == []
    await page.get_by_role("button", name="Pause 2 selected").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Pause: 2 of 2 selected tasks")
    for task_id, status in zip(ids, ("PAUSED", "PAUSED", "SCHEDULED"), strict=True):
        assert (await call(api, "GET", f"/api/v1/tasks/{task_id}", 200))["status"] == status
    await page.get_by_role("link", name="Back to the list").click()
    await expect(page.locator("tbody tr")).to_have_count(4)
    await page.get_by_role("checkbox", name="Select all on this page").check()
    await expect(page.locator("#count")).to_have_text("4 selected")


async def test_all_that_match_are_changed_as_the_page_says(
    browsing: Browsing, api: Api, database: Database, connection: "asyncpg.Connection[Any]"
) -> None:
    await fill(connection, 1_000, "HTTP 503", ago=1000)
    await fill(connection, 10, "other", ago=1000)
    page = await browsing.open(api, "/tasks", width=320)
    await page.get_by_role("link", name="Act on all tasks…").click()
    await page.get_by_role("textbox", name="Filter of tasks").fill("error:503")
    await page.get_by_role("combobox", name="Action").select_option("retry")
    await page.get_by_role("button", name="Count them").click()
    assert await axe(page) == []
    await page.get_by_role("button", name=re.compile("^Retry 1.000 tasks$")).click()
    await expect(page.locator(".wide progress")).to_have_attribute("value", "0")
    (operation,) = (await call(api, "GET", BULK, 200))["bulk_operations"]
    stepper = Stepper(database)
    await stepper.chunk(operation, 400)
    await expect(page.locator(".wide progress")).to_have_attribute("value", "400")
    await stepper.finish(operation)
    await expect(page.locator(".lead")).to_have_text("It is finished.")
    await expect(page.get_by_role("button", name="Stop it")).to_have_count(0)
    assert await axe(page) == []
    assert await dead_letters(connection, "HTTP 503") == 0
    assert await dead_letters(connection, "other") == 10

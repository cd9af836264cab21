"""What people do with the dashboard, from one end to the other, in a real browser."""

import aiohttp
from playwright.async_api import expect
from tests.dashboard.browsing import Browsing, sign_in
from tests.integration.api_calls import LATER, TASKS, call
from tests.integration.identity import bearer, make_key

from gnomon.store.postgres.database import Database

Api = aiohttp.ClientSession


async def test_sign_in_act_and_sign_out(
    browsing: Browsing, guarded: Api, database: Database
) -> None:
    """Browsers tell the origin of a form; nothing else would be believed."""
    _, key = await make_key(database)
    task = await call(guarded, "POST", TASKS, 202, LATER, headers=bearer(key))
    page = await browsing.open(guarded)
    await sign_in(page, key)
    await page.goto(f"/tasks/{task['task_id']}")
    await page.get_by_role("button", name="Pause").click()
    await expect(page.locator(".head .status")).to_contain_text("paused")
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_label("Key")).to_be_visible()
    await page.goto("/tasks")
    await expect(page.get_by_label("Key")).to_be_visible()

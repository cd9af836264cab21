"""A thousand dead letters of two errors, in a real browser: re-drive those of one error."""

import re

import aiohttp
import asyncpg
from playwright.async_api import expect
from tests.dashboard.browsing import NARROW, Browsing, axe
from tests.integration.bulk_calls import Stepper
from tests.integration.test_bulk_operations import dead_letters, fill
from tests.integration.test_dead_letter_groups import fingerprinted

from gnomon.store.postgres.database import Database


async def test_exactly_those_of_one_error_are_retried(
    browsing: Browsing,
    api: aiohttp.ClientSession,
    database: Database,
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    for user in range(6):
        await fill(connection, 100, f"user {user} not found", ago=1000)
    await fill(connection, 400, "HTTP 503 Service Unavailable", ago=1000)
    await fingerprinted(database)
    page = await browsing.open(api, "/dead-letters")
    await page.get_by_role("link", name="user <n> not found").click()
    await page.get_by_role("link", name="Retry all 600…").click()
    await page.get_by_role("button", name="Retry 600 tasks").click()
    await page.wait_for_url(re.compile(r"/bulk-operations/[0-9a-f-]{36}"))
    await Stepper(database).finish({"operation_id": page.url.rpartition("/")[2]})
    await page.goto("/dead-letters")
    await expect(page.locator("tbody tr")).to_have_count(1)
    await expect(page.locator("tbody tr")).to_contain_text("HTTP 503 Service Unavailable")
    assert await dead_letters(connection, "HTTP 503 Service Unavailable") == 400
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task WHERE state = 0") == 600


async def test_one_is_archived_with_a_note_by_keyboard_and_listed(
    browsing: Browsing,
    api: aiohttp.ClientSession,
    database: Database,
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    await fill(connection, 2, "boom")
    await fingerprinted(database)
    page = await browsing.open(api, "/dead-letters", width=NARROW, theme="dark")
    await page.get_by_role("link", name="boom").press("Enter")
    first = page.locator(".cards > li").first
    await first.get_by_text("Archive…").press("Enter")
    await first.locator("details[open] textarea").first.fill("paid by hand")
    assert await axe(page) == []
    await first.get_by_role("button", name="Archive this dead letter").press("Enter")
    await expect(page.get_by_role("status").filter(has_text="archived")).to_be_visible()
    await expect(page.locator(".cards > li")).to_have_count(1)
    await page.goto("/dead-letters/resolved")
    await expect(page.locator("tbody tr")).to_contain_text("paid by hand")
    assert await axe(page) == []

"""Recurring jobs in a real browser: the stories of who runs them."""

import aiohttp
from playwright.async_api import Page, expect
from tests.dashboard.browsing import Browsing, axe
from tests.integration.api_calls import call
from tests.integration.cron_calls import JOBS, created

Api = aiohttp.ClientSession


async def test_pause_a_job_change_its_schedule_and_see_the_preview(page: Page, api: Api) -> None:
    await created(api, cron_expression="0 9 * * *")
    await page.goto("/cron")
    await page.get_by_role("link", name="report").click()
    await page.get_by_text("Pause…").click()
    await page.get_by_label("Reason").fill("the bank moves")
    await page.get_by_role("button", name="Pause this job").click()
    await expect(page.get_by_text("the bank moves")).to_be_visible()
    assert (await call(api, "GET", f"{JOBS}/report", 200))["pause_reason"] == "the bank moves"

    await page.get_by_role("link", name="Edit").click()
    preview = page.locator("#preview")
    await expect(preview.get_by_text("At 09:00 every day (UTC)")).to_be_visible()
    expression = page.get_by_role("textbox", name="Cron expression")
    await expression.fill("30 2 * * MON")
    await page.get_by_label("Time zone").fill("Europe/Berlin")
    await expect(preview.get_by_text("At 02:30 on Monday (Europe/Berlin)")).to_be_visible()
    await expect(preview.locator(".fires li")).to_have_count(10)

    # A mistake is told beside its field while one types, and goes when it is mended.
    await expression.fill("30 2 * *")
    problem = page.locator("#problem-cron_expression")
    await expect(problem).to_contain_text("has 4 fields")
    await expect(expression).to_have_attribute("aria-invalid", "true")
    await expression.fill("45 6 * * MON")
    await expect(problem).to_have_text("")
    await expect(expression).not_to_have_attribute("aria-invalid", "true")
    await expect(preview.get_by_text("At 06:45 on Monday")).to_be_visible()
    assert await axe(page) == []

    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("The recurring job was changed.")).to_be_visible()
    job = await call(api, "GET", f"{JOBS}/report", 200)
    assert (job["cron_expression"], job["timezone"]) == ("45 6 * * MON", "Europe/Berlin")
    await page.get_by_role("button", name="Resume").click()
    await expect(page.get_by_text("The next fire is at")).to_be_visible()


async def test_the_editor_works_without_scripts(browsing: Browsing, api: Api) -> None:
    page = await browsing.open(api, "/cron/new", java_script_enabled=False, width=320)
    await page.get_by_label("Name").fill("tick")
    await page.get_by_role("textbox", name="Task type").fill("tick")
    await page.get_by_label("the handler of its task type").check()
    await page.get_by_label("an interval", exact=True).check()
    await page.get_by_label("Every so many seconds").fill("often")
    await page.get_by_role("button", name="Preview").click()
    await expect(page.locator("#problem-interval_seconds")).to_have_text("must be a number")
    await page.get_by_label("Every so many seconds").fill("90")
    await page.get_by_role("button", name="Preview").click()
    await expect(page.locator("#preview .fires li")).to_have_count(10)
    await expect(page.get_by_label("Name")).to_have_value("tick")
    await page.get_by_role("button", name="Create the job").click()
    assert (await call(api, "GET", f"{JOBS}/tick", 200))["interval_seconds"] == 90


async def test_delete_asks_twice_and_a_backfill_says_its_number(page: Page, api: Api) -> None:
    job = await created(api, cron_expression="30 4 * * *")
    await page.goto(f"/cron/{job['cron_job_id']}/backfill")
    await page.get_by_label("From, in UTC").fill("2026-01-01T00:00:00")
    await page.get_by_label("To, in UTC").fill("2026-01-08T00:00:00")
    await page.get_by_role("button", name="Count the runs").click()
    await page.get_by_role("button", name="Start 7 runs").click()
    await expect(page.get_by_role("img", name="last 7 runs")).to_be_visible()
    await page.get_by_text("Delete…").click()
    await page.get_by_role("button", name="Delete").click()
    await expect(page.get_by_text("There is no recurring job yet.")).to_be_visible()
    await call(api, "GET", f"{JOBS}/report", 404)

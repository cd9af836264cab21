"""The page about batches, run as it stands."""

import pytest
from tests.page_code import module_of

from gnomon.testing import virtual_gnomon


async def test_the_pictures(capsys: pytest.CaptureFixture[str]) -> None:
    with module_of("how-to/batches.md", "batches_of_the_page") as page:
        async with virtual_gnomon(page.app) as g:
            await page.main()
            assert capsys.readouterr().out.endswith("SUCCEEDED 2\n")
            await g.drain()
            assert sorted(page.reports) == ["holidays: all resized", "holidays: done"]
            batch = await page.resize_all("notes", ["a.png", "b.txt"])
            assert (await batch.wait()).status == "FAILED"
            await g.drain()
            assert page.reports[2:] == ["notes: done"]

"""Who is offered which action, and who may do it: for every page and action that there is."""

import re
from collections.abc import AsyncIterator
from typing import NamedTuple

import aiohttp
import pytest
import pytest_asyncio
from tests.conftest import PostgresServer, fresh_database, opened, serving
from tests.dashboard.page_routes import ACTIONS, PAGES, about
from tests.dashboard.seeding import seeded
from tests.integration.identity import make_key, make_operator
from tests.integration.test_dashboard import origin_of, posted, shown, signed_in

from gnomon.access.principal import Role
from gnomon.clock import SystemClock, new_id

Api = aiohttp.ClientSession

_FOREIGN = [{}, {"Origin": "null"}, {"Origin": "http://evil.example"},
            {"Sec-Fetch-Site": "cross-site"}]  # fmt: skip


class Guarded(NamedTuple):
    """An API with authentication and data, and keys for it."""

    api: Api
    things: dict[str, str]
    reader: str
    owner: str
    operator: str

    def may(self, role: Role) -> str:
        """A key that may do this and, but for its tenant's admin, little else."""
        return self.operator if role is Role.OPERATOR else self.owner


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def guarded(postgres: PostgresServer) -> AsyncIterator[Guarded]:
    async with fresh_database(postgres) as dsn, opened(dsn) as database:
        # Once authentication is on, nothing is done without a key: so the data comes before.
        async with serving(dsn) as api, seeded(dsn, api) as found:
            things = found
        _, reader = await make_key(database, name="reader", roles=[Role.READ])
        _, owner = await make_key(database, name="owner")
        _, operator = await make_operator(database)
        async with serving(dsn, auth_enabled=True) as api:
            yield Guarded(api, things, reader, owner, operator)


async def test_a_key_that_reads_is_offered_no_action(guarded: Guarded) -> None:
    async with signed_in(guarded.api, guarded.reader) as browser:
        for path, role in PAGES.items():
            text = await shown(
                browser, about(path, guarded.things), 200 if role is Role.READ else 403
            )
            forms = re.findall(r"<form[^>]*>", text)
            offered = [form for form in forms if "post" in form and "/sign-out" not in form]
            assert offered == [], path
            assert not re.search(r"formaction|hx-(post|put|patch|delete)", text), path
            # Nor the pages that lead to one.
            for other, needed in PAGES.items():
                if needed is not Role.READ and "{" not in other:
                    assert f'href="{other}"' not in text, path


@pytest.mark.parametrize("path", ACTIONS)
async def test_a_key_that_reads_may_do_nothing_by_hand(guarded: Guarded, path: str) -> None:
    async with signed_in(guarded.api, guarded.reader) as browser:
        assert (await posted(browser, about(path, guarded.things))).status == 403


@pytest.mark.parametrize("path", ACTIONS)
async def test_only_own_pages_act_under_a_session(guarded: Guarded, path: str) -> None:
    there = about(path, guarded.things)
    signed = await posted(guarded.api, "/sign-in", {"credentials": guarded.may(ACTIONS[path])})
    cookies = {"gnomon_session": signed.cookies["gnomon_session"].value}
    for headers in _FOREIGN:
        refused = await posted(guarded.api, there, headers=headers, cookies=cookies)
        assert refused.status == 403, headers
    # It was for the origin alone: about what nobody has, it is not found, or has a wrong form.
    nobodys = about(path, dict.fromkeys(guarded.things, str(new_id(SystemClock().now()))))
    taken = await posted(guarded.api, nobodys, headers=origin_of(guarded.api), cookies=cookies)
    assert taken.status != 403


@pytest.mark.parametrize("path", [*PAGES, *ACTIONS])
async def test_nobody_comes_without_a_session(guarded: Guarded, path: str) -> None:
    there = about(path, guarded.things)
    own = origin_of(guarded.api)
    if path in PAGES:
        async with guarded.api.get(there, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["location"][:8]) == (303, "/sign-in")
    if path in ACTIONS:
        assert (await posted(guarded.api, there, headers=own)).status == 401

"""The pages of dead letters over HTTP: groups, one group, all of them, resolved ones, and notes."""

import re
from html import unescape
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.integration.api_calls import BODY, Api, call, put, submitted
from tests.integration.bulk_calls import BULK, Stepper
from tests.integration.identity import make_key
from tests.integration.test_bulk_operations import dead_letters, fill
from tests.integration.test_dashboard import HOSTILE, guarded, origin_of, posted, shown, signed_in
from tests.integration.test_dashboard_bulk import fields_of
from tests.integration.test_dead_letter_groups import DEAD, GROUPS, fingerprinted

from gnomon.access.principal import Role
from gnomon.store.postgres.database import Database

if TYPE_CHECKING:
    import asyncpg

Connection: TypeAlias = "asyncpg.Connection[Any]"
HERE = "/dead-letters"
BULK_PAGE = "/bulk-operations"

__all__ = ["guarded"]  # the fixture


def links(text: str) -> dict[str, str]:
    """Where the links of a page lead, by their text."""
    found = re.findall(r'<a [^>]*?href="([^"]*)"[^>]*>(.*?)</a>', text)
    return {re.sub(r"<[^>]*>", "", name).strip(): unescape(url) for url, name in found}


async def test_a_thousand_dead_letters_of_two_errors_and_one_is_retried_from_its_page(
    api: Api, database: Database, connection: Connection
) -> None:
    for user in range(6):
        await fill(connection, 100, f"user {user} not found", ago=1000)
    await fill(connection, 400, "HTTP 503 Service Unavailable", ago=1000)
    await fingerprinted(database)
    text = await shown(api, HERE)
    assert sorted(re.findall(r"<strong>(\d+)</strong>", text)) == ["400", "600"]
    group = await shown(api, links(text)["user &lt;n&gt; not found"])
    assert "user <n> not found" in unescape(group)
    buttons = links(group)
    assert {"Retry all 600…", "Archive all 600…", "Discard all 600…"} <= set(buttons)
    asks = await shown(api, buttons["Retry all 600…"])
    assert "Retry 600 tasks</button>" in asks
    answer = await posted(api, BULK_PAGE, fields_of(asks))
    operation = {"operation_id": answer.headers["location"].rpartition("/")[2]}
    await Stepper(database).finish(operation)
    ended = await call(api, "GET", f"{BULK}/{operation['operation_id']}", 200)
    assert (ended["changed"], ended["refused"]) == (600, 0)
    assert await dead_letters(connection, "HTTP 503 Service Unavailable") == 400
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task WHERE state = 0") == 600
    again = await shown(api, HERE)
    assert "503 Service Unavailable" in again
    assert "not found" not in again
    assert "None of this error is left." in await shown(
        api, links(text)["user &lt;n&gt; not found"]
    )


async def test_notes_are_kept_shown_and_refused_beside_their_field(
    api: Api, database: Database, connection: Connection
) -> None:
    await fill(connection, 3, f"boom {HOSTILE}")
    await fingerprinted(database)
    (group,) = (await call(api, "GET", GROUPS, 200))["groups"]
    one, two, three = [
        each["task_id"] for each in (await call(api, "GET", DEAD, 200))["dead_letters"]
    ]
    form = {"note": f"told {HOSTILE}\r\ntwice", "group": group["fingerprint"]}
    answer = await posted(api, f"{HERE}/{one}/archive", form)
    assert answer.headers["location"] == f"{HERE}/groups/{group['fingerprint']}?done=archive"
    letter = await call(api, "GET", f"{DEAD}/{one}", 200)
    assert letter["note"] == f"told {HOSTILE}\ntwice"
    text = await shown(api, f"{HERE}/resolved")
    assert "<script>alert" not in text
    assert "told &lt;script&gt;" in text
    long = "x" * 1001
    async with api.post(
        f"{HERE}/{two}/discard", data={"note": long}, headers=origin_of(api)
    ) as refused:
        assert refused.status == 422
        text = await refused.text()
    assert long in text
    assert "must have at most 1000 characters" in text
    assert 'aria-describedby="wrong"' in text
    assert (await call(api, "GET", f"{DEAD}/{two}", 200))["resolution"] is None
    answer = await posted(api, f"{HERE}/{two}/discard", {"group": "//evil.example"})
    assert answer.headers["location"] == f"{HERE}?done=discard"
    asks = await shown(api, f"{BULK_PAGE}/new?action=discard&q=fingerprint:{group['fingerprint']}")
    assert 'name="note"' in asks
    answer = await posted(api, BULK_PAGE, fields_of(asks) | {"note": "the last"})
    operation = {"operation_id": answer.headers["location"].rpartition("/")[2]}
    await Stepper(database).finish(operation)
    assert (await call(api, "GET", f"{DEAD}/{three}", 200))["note"] == "the last"
    text = await shown(api, f"{HERE}/resolved")
    assert [text.index(each) for each in (three, two, one)] == sorted(
        text.index(each) for each in (three, two, one)
    )
    only = await shown(api, f"{HERE}/resolved?q=fingerprint:{group['fingerprint']}")
    assert three in only
    assert "None matches." in await shown(api, f"{HERE}/resolved?q=type:other")


async def test_more_than_the_type_leads_to_the_list_and_tracebacks_are_at_hand(
    api: Api, database: Database, connection: Connection
) -> None:
    tagged = (await submitted(api, BODY | {"delay_seconds": 60, "tags": ["a b"]}))["task_id"]
    plain = (await submitted(api, BODY | {"delay_seconds": 60}))["task_id"]
    for each in (tagged, plain):
        await put(connection, each, "state = 4, attempt = 1, last_error = 'no'")
    await connection.execute(
        "INSERT INTO gnomon.execution (tenant_id, task_id, fence, attempt, outcome, finished_at,"
        " traceback) VALUES ('default', $1::text::uuid, 1, 1, 1, gnomon.now(), $2)",
        tagged,
        f"Traceback of {HOSTILE}",
    )
    assert "2 dead letters have no group yet" in await shown(api, HERE)
    await fingerprinted(database)
    assert "<strong>2</strong>" in await shown(api, f"{HERE}?q=type:mail")
    assert "No dead letter matches." in await shown(api, f"{HERE}?q=type:other")
    text = await shown(api, f'{HERE}?q=tag:"a b"')
    assert tagged in text
    assert plain not in text
    assert "Traceback of &lt;script&gt;" in text
    assert links(text)["Retry all that match…"] == (
        f"{BULK_PAGE}/new?action=retry&q=tag%3A%22a+b%22"
    )
    assert plain in await shown(api, f"{HERE}/all")
    for wrong in ("?q=colour:red", "/all?q=status:READY", "/resolved?q=after:soon"):
        assert 'id="wrong"' in await shown(api, f"{HERE}{wrong}", 422)
    await shown(api, f"{HERE}/groups/nonsense", 422)
    fragment = await shown(api, f"{HERE}?fragment=1")
    assert "<html" not in fragment
    assert 'id="live-part"' in fragment


async def test_who_may_only_read_sees_no_action(
    guarded: Api, database: Database, connection: Connection
) -> None:
    await fill(connection, 1)
    await fingerprinted(database)
    _, key = await make_key(database, roles={Role.READ})
    task_id = await connection.fetchval("SELECT id FROM gnomon.task")
    async with signed_in(guarded, key) as browser:
        text = await shown(browser, HERE)
        address = links(text)["boom"]
        for path in (address, f"{HERE}/all"):
            assert "Retry" not in await shown(browser, path)
        assert (await posted(browser, f"{HERE}/{task_id}/archive", {"note": "x"})).status == 403
    assert await dead_letters(connection) == 1
    _, key = await make_key(database, name="ann", roles={Role.READ, Role.OPERATE})
    async with signed_in(guarded, key) as browser:
        assert (await posted(browser, f"{HERE}/{task_id}/archive", {"note": "x"})).status == 303
        assert "<bdi>ann</bdi>" in await shown(browser, f"{HERE}/resolved")

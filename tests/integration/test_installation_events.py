"""Events of the installation are listed and acknowledged by operators, and seen by no tenant."""

import re

from tests.integration.api_calls import call
from tests.integration.identity import bearer, make_key, make_operator
from tests.integration.support import Connection
from tests.integration.test_dashboard import Api, guarded, posted, shown, signed_in
from tests.integration.test_event_acknowledgements import EVENTS, entered
from tests.integration.test_live import watching

from gnomon.access.principal import Role
from gnomon.model.insight.event_kinds import (
    INSTALLATION,
    NODE_JOINED,
    NODE_LOST,
    PARTITIONS_MISSING,
    SLA_MISSED,
)
from gnomon.store.postgres.database import Database

__all__ = ["guarded"]  # a fixture

OURS = "/api/v1/installation/events"
PAGE = "/installation/events"


async def test_operators_list_and_acknowledge_them(
    guarded: Api, database: Database, connection: Connection
) -> None:
    lost, joined = await entered(connection, NODE_LOST, NODE_JOINED, tenant=INSTALLATION)
    (theirs,) = await entered(connection, SLA_MISSED)
    operator = bearer((await make_operator(database, "ann"))[1])

    async def listed(query: str = "") -> list[str]:
        found = await call(guarded, "GET", OURS + query, 200, headers=operator)
        return [event["event_id"] for event in found["events"]]

    assert await listed() == [joined, lost]
    assert await listed("?severity=error") == [lost]
    assert await listed("?kind=node.joined") == [joined]
    page = await call(guarded, "GET", f"{OURS}?limit=1", 200, headers=operator)
    assert await listed(f"?cursor={page['next_cursor']}") == [lost]
    assert await listed("?after=0") == [lost, joined]
    path = f"{OURS}/{lost}/acknowledge"
    done = await call(guarded, "POST", path, 200, {"note": "known"}, headers=operator)
    assert (done["event_id"], done["acknowledged_by"], done["note"]) == (lost, "ann", "known")
    assert await listed("?acknowledged=false") == [joined]
    body = {"event_ids": [joined, theirs]}
    noted = await call(guarded, "POST", f"{OURS}/acknowledge", 200, body, headers=operator)
    assert noted == {"event_ids": [joined]}
    await call(guarded, "POST", f"{OURS}/{theirs}/acknowledge", 404, {}, headers=operator)
    assert (
        await connection.fetchval(
            "SELECT array_agg(tenant_id) FROM gnomon.event WHERE acknowledged_at IS NOT NULL"
        )
        == [INSTALLATION] * 2
    )


async def test_no_tenant_sees_or_acknowledges_them(
    guarded: Api, database: Database, connection: Connection
) -> None:
    (lost,) = await entered(connection, NODE_LOST, tenant=INSTALLATION)
    (own,) = await entered(connection, SLA_MISSED)
    _, secret = await make_key(database, roles=[Role.ADMIN])
    headers = bearer(secret)
    for query in ("", "?after=0", f"?kind={NODE_LOST}", "?acknowledged=false"):
        found = await call(guarded, "GET", EVENTS + query, 200, headers=headers)
        assert {event["event_id"] for event in found["events"]} <= {own}
    await call(guarded, "GET", OURS, 403, headers=headers)
    await call(guarded, "POST", f"{OURS}/{lost}/acknowledge", 403, {}, headers=headers)
    await call(guarded, "POST", f"{EVENTS}/{lost}/acknowledge", 404, {}, headers=headers)
    body = {"event_ids": [lost]}
    noted = await call(guarded, "POST", f"{EVENTS}/acknowledge", 200, body, headers=headers)
    assert noted == {"event_ids": []}
    async with signed_in(guarded, secret) as browser:
        assert lost not in await shown(browser, "/events?state=all")
        await shown(browser, PAGE, 403)
        assert (await posted(browser, f"{PAGE}/acknowledge", {"ids": lost})).status == 403
        await posted(browser, "/events/acknowledge", {"ids": lost})
    noted_at = await connection.fetchval(
        "SELECT acknowledged_at FROM gnomon.event WHERE tenant_id = $1", INSTALLATION
    )
    assert noted_at is None


def badges(text: str) -> dict[str, str]:
    """What the badges in the bar count, by the end of their ids; without those that are hidden."""
    return dict(re.findall(r'id="open-([a-z-]+)"><span>([^<]+)<', text))


async def test_operators_have_a_page_and_a_badge(
    guarded: Api, database: Database, connection: Connection
) -> None:
    lost, missing, _ = await entered(
        connection, NODE_LOST, PARTITIONS_MISSING, NODE_JOINED, tenant=INSTALLATION
    )
    (theirs,) = await entered(connection, SLA_MISSED)
    _, secret = await make_operator(database)
    async with signed_in(guarded, secret) as browser:
        text = await shown(browser, PAGE)
        assert "Node lost" in text
        assert theirs not in text
        assert badges(text) == {"installation-events": "2"}  # good news needs nobody
        assert badges(await shown(browser, "/nodes")) == {"installation-events": "2"}
        done = await posted(browser, f"{PAGE}/{lost}/acknowledge", {"note": "known"})
        assert done.headers["location"] == f"{PAGE}?done=acknowledge"
        form = {"ids": f"{missing} {theirs}", "state": "open"}
        done = await posted(browser, f"{PAGE}/acknowledge", form)
        assert done.headers["location"] == f"{PAGE}?state=open&done=acknowledge_all"
        assert badges(await shown(browser, PAGE)) == {}
        assert "known" in await shown(browser, f"{PAGE}?state=acknowledged")
        await shown(browser, "/events", 403)
    noted = await connection.fetchval(
        "SELECT count(*) FROM gnomon.event WHERE acknowledged_at IS NOT NULL"
    )
    assert noted == 2


async def test_without_authentication_one_person_sees_both(
    api: Api, connection: Connection
) -> None:
    await entered(connection, NODE_LOST, tenant=INSTALLATION)
    await entered(connection, SLA_MISSED, SLA_MISSED)
    for path in ("/events", PAGE):
        assert badges(await shown(api, path)) == {"events": "2", "installation-events": "1"}
    assert len((await call(api, "GET", OURS, 200))["events"]) == 1


async def test_open_pages_are_told(api: Api, connection: Connection) -> None:
    async with watching(api, "events", path="/live/installation") as stream:
        while await stream.next() != ("open-installation-events", "0"):
            pass
        await entered(connection, SLA_MISSED)
        (lost,) = await entered(connection, NODE_LOST, tenant=INSTALLATION)
        while await stream.next() != ("open-installation-events", "1"):
            pass
        await stream.says("events")
        await call(api, "POST", f"{OURS}/{lost}/acknowledge", 200, {})
        while await stream.next() != ("open-installation-events", "0"):
            pass

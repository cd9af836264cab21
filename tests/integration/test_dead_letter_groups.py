"""Dead letters by error: fingerprints, groups, and acting on exactly one group."""

from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

import pytest
from tests.integration.api_calls import BODY, TASKS, Api, call, put, submitted
from tests.integration.bulk_calls import BULK, Stepper
from tests.integration.identity import make_tenant
from tests.integration.nodes import running_node
from tests.integration.support import database_now, joined, live, settlement, store, submission
from tests.integration.test_bulk_operations import dead_letters, fill
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.model.fleet.retention import RowKind
from gnomon.model.outcomes.fingerprint import fingerprint, written
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import Verdict, VerdictKind
from gnomon.pipe.envelope import Delivery
from gnomon.store.ports.dispatch import Burial
from gnomon.store.ports.work.dead_letters import MOST_GROUPS, MOST_MEMBERS
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.tasks.dead_letters import PostgresDeadLetters
from gnomon.wiring.node_inputs import Served

if TYPE_CHECKING:
    import asyncpg

Connection: TypeAlias = "asyncpg.Connection[Any]"
DEAD = "/api/v1/dead-letters"
GROUPS = f"{DEAD}/groups"
DIES = Verdict(VerdictKind.DEAD_LETTER)
RETRIES = Verdict(VerdictKind.RETRY, delay=60.0, spends=True)


async def fingerprinted(database: Database) -> int:
    """As a node does it in the background."""
    letters, done = PostgresDeadLetters(database), 0
    while batch := await letters.fingerprint_some(1000):
        done += batch
    return done


async def claimed(
    database: Database, dispatch: PostgresDispatch, connection: Connection, count: int
) -> list[Delivery]:
    node, now = await joined(database), await database_now(connection)
    keys = await store(database, *(submission(now, task_type="mail") for _ in range(count)))
    return (await dispatch.claim(node, keys)).deliveries


async def test_a_task_gets_its_fingerprint_when_it_dies_and_loses_it_when_it_is_retried(
    database: Database, connection: Connection, api: Api
) -> None:
    dispatch = PostgresDispatch(database, 10.0)
    deliveries = await claimed(database, dispatch, connection, 4)
    errors = ["row 7 is bad", "row 8 is bad", "other", "row 9 is bad"]
    verdicts = [DIES, DIES, DIES, RETRIES]
    await dispatch.settle(
        [
            settlement(each, verdict, OutcomeKind.FAILED, error=error, task_type="mail")
            for each, verdict, error in zip(deliveries, verdicts, errors, strict=True)
        ]
    )

    async def found() -> list[Any]:
        rows = [await live(connection, each.key) for each in deliveries]
        return [row and row["fingerprint"] for row in rows]

    expected = fingerprint("mail", "row 7 is bad")
    assert await found() == [expected, expected, fingerprint("mail", "other"), None]
    await call(api, "POST", f"{DEAD}/{deliveries[0].key.id}/retry", 202)
    assert (await found())[0] is None
    stepper = Stepper(database)
    chosen = {"fingerprint": written(expected)}
    ended = await stepper.done(api, {"action": "retry", "filter": chosen})
    assert (ended["changed"], ended["filter"]) == (1, chosen)
    assert (await found())[1:3] == [None, fingerprint("mail", "other")]


async def test_many_that_die_together_get_their_fingerprints_each(
    database: Database, connection: Connection
) -> None:
    dispatch = PostgresDispatch(database, 10.0)
    deliveries = await claimed(database, dispatch, connection, 40)
    errors = {each.key.id: "abcd"[n % 4] * 50 for n, each in enumerate(deliveries)}
    await dispatch.settle(
        [
            settlement(each, DIES, OutcomeKind.FAILED, error=errors[each.key.id], task_type="mail")
            for each in deliveries
        ]
    )
    rows = await connection.fetch("SELECT id, fingerprint FROM gnomon.task")
    assert dict(rows) == {task: fingerprint("mail", error) for task, error in errors.items()}


async def test_what_dies_otherwise_gets_its_fingerprint_from_a_node(
    database: Database, database_dsn: str, connection: Connection, api: Api
) -> None:
    """Buried, without an error of its own, or by plain SQL."""
    dispatch = PostgresDispatch(database, 10.0)
    buried, silent = await claimed(database, dispatch, connection, 2)
    await dispatch.bury(buried.incarnation, [Burial(buried.key, buried.fence, "row 3 is odd")])
    await connection.execute("UPDATE gnomon.task SET last_error = 'before' WHERE state = 1")
    await dispatch.settle([settlement(silent, DIES, OutcomeKind.FAILED, task_type="mail")])
    task_id = (await submitted(api))["task_id"]
    await put(connection, task_id, "state = 4, last_error = 'by hand'")
    page = await call(api, "GET", GROUPS, 200)
    assert (page["groups"], page["ungrouped"], page["ungrouped_capped"]) == ([], 3, False)

    async def none_is_left() -> bool:
        return bool((await call(api, "GET", GROUPS, 200))["ungrouped"] == 0)

    async with running_node(database_dsn, served=Served(handlers=frozenset())):
        await eventually(none_is_left, timeout=60)
    page = await call(api, "GET", GROUPS, 200)
    assert {group["error"] for group in page["groups"]} == {"row <n> is odd", "before", "by hand"}


async def test_a_thousand_dead_letters_of_two_errors_and_only_one_is_retried(
    api: Api, database: Database, connection: Connection
) -> None:
    for number in range(0, 600, 100):
        await fill(connection, 100, f"user {number} not found", ago=1000)
    await fill(connection, 400, "HTTP 503 Service Unavailable", ago=1000)
    assert await fingerprinted(database) == 1000
    groups = (await call(api, "GET", GROUPS, 200))["groups"]
    assert {(group["error"], group["count"]) for group in groups} == {
        ("user <n> not found", 600),
        ("HTTP 503 Service Unavailable", 400),
    }
    (chosen,) = [group for group in groups if group["count"] == 600]
    page = await call(api, "GET", DEAD, 200, params={"fingerprint": chosen["fingerprint"]})
    assert len(page["dead_letters"]) == 50
    assert {each["fingerprint"] for each in page["dead_letters"]} == {chosen["fingerprint"]}
    body = {"action": "retry", "filter": {"fingerprint": chosen["fingerprint"]}}
    seen = await call(api, "POST", BULK, 200, body | {"dry_run": True})
    assert (seen["total"], seen["total_capped"]) == (600, False)
    ended = await Stepper(database).done(api, body | {"expect": 600})
    assert (ended["changed"], ended["refused"]) == (600, 0)
    assert await dead_letters(connection, "HTTP 503 Service Unavailable") == 400
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task WHERE state = 0") == 600
    (left,) = (await call(api, "GET", GROUPS, 200))["groups"]
    assert (left["error"], left["count"]) == ("HTTP 503 Service Unavailable", 400)


async def test_a_group_tells_when_it_began_how_it_goes_on_and_one_example(
    api: Api, database: Database, connection: Connection
) -> None:
    task_ids = [(await submitted(api, BODY | {"delay_seconds": 60}))["task_id"] for _ in range(3)]
    for task_id, hours in zip(task_ids, (30, 2, 0), strict=True):
        moved = f"state = 4, last_error = 'no 7', due_at = due_at - interval '{hours} hours 2 min'"
        await put(connection, task_id, moved)
    await fingerprinted(database)
    (group,) = (await call(api, "GET", GROUPS, 200))["groups"]
    assert (group["task_type"], group["error"], group["count"]) == ("mail", "no <n>", 3)
    assert group["example"] == task_ids[2]
    letters = [await call(api, "GET", f"{DEAD}/{each}", 200) for each in task_ids]
    assert group["first_seen"] == letters[0]["finished_at"]
    assert group["last_seen"] == letters[2]["finished_at"]
    assert {letter["fingerprint"] for letter in letters} == {group["fingerprint"]}
    assert len(group["hours"]) == 24
    assert group["hours"][-3:] == [1, 0, 1]
    assert sum(group["hours"]) == 2


async def test_groups_come_in_pages_by_type_and_only_of_the_own_tenant(
    api: Api, database: Database, connection: Connection
) -> None:
    await make_tenant(database, "acme")
    await fill(connection, 3, "theirs", tenant="acme")
    for word in ("one", "two", "three", "four", "five"):
        await fill(connection, 2, f"error {word}")
    other = (await submitted(api, BODY | {"delay_seconds": 60}))["task_id"]
    await put(connection, other, "state = 4, last_error = 'error one'")
    await fingerprinted(database)
    everything = (await call(api, "GET", GROUPS, 200))["groups"]
    assert len(everything) == 6
    seen, cursor = [], None
    while True:
        params = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = await call(api, "GET", GROUPS, 200, params=params)
        assert len(page["groups"]) <= 2
        seen += page["groups"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == everything
    assert seen == sorted(seen, key=lambda group: group["last_seen"], reverse=True)
    (mail,) = (await call(api, "GET", GROUPS, 200, params={"task_type": "mail"}))["groups"]
    assert (mail["task_type"], mail["count"]) == ("mail", 1)
    assert (await call(api, "GET", GROUPS, 200, params={"task_type": "none"}))["groups"] == []


async def test_ten_thousand_different_errors_are_few_groups_or_pages_of_bounded_work(
    api: Api, database: Database, connection: Connection
) -> None:
    """What differs in details is one group. What differs in words is paged; a large group among
    them is counted up to a bound, and a page looks at a bounded number of groups."""
    insert = """
        INSERT INTO gnomon.task (tenant_id, id, state, due_at, task_type, target, last_error)
        SELECT 'default', (lpad(to_hex((extract(epoch FROM gnomon.now()) * 1000)::bigint - n), 12,
            '0') || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 5, 15))::uuid,
            4, gnomon.now() - n * interval '1 ms', 't', '{}', %s
        FROM generate_series(%s) AS n
    """
    details = "format('order %s of \"%s\" failed', n, md5(n::text))"
    await connection.execute(insert % (details, "1, 10000"))
    await fingerprinted(database)
    (group,) = (await call(api, "GET", GROUPS, 200))["groups"]
    assert (group["count"], group["count_capped"]) == (MOST_MEMBERS, True)
    words = "translate(n::text, '0123456789', 'abcdefghij')"
    await connection.execute(insert % (words, f"20001, {20001 + MOST_GROUPS}"))
    await fingerprinted(database)
    page = await call(api, "GET", GROUPS, 200, params={"limit": "100"})
    assert len(page["groups"]) == 100
    assert page["groups_capped"]
    assert page["next_cursor"] is not None
    more = await call(api, "GET", GROUPS, 200, params={"cursor": page["next_cursor"]})
    assert {each["fingerprint"] for each in more["groups"]}.isdisjoint(
        each["fingerprint"] for each in page["groups"]
    )


@pytest.mark.parametrize(
    ("path", "params"),
    [
        (GROUPS, {"cursor": "nonsense"}),
        (GROUPS, {"cursor": "AAAA"}),
        (GROUPS, {"queue": "a"}),
        (DEAD, {"fingerprint": "xyz"}),
        (DEAD, {"fingerprint": "ffffffffffffffff"}),
        (DEAD, {"resolved": "true", "cursor": "AAAAAAAAAAA"}),
        (DEAD, {"resolved": "perhaps"}),
    ],
)
async def test_wrong_queries_are_refused(
    shared_api: Api, path: str, params: dict[str, str]
) -> None:
    await call(shared_api, "GET", path, 422, params=params)


async def test_a_fingerprint_is_of_dead_letters_only(api: Api) -> None:
    chosen = {"filter": {"fingerprint": "0" * 16}}
    refused = await call(api, "POST", BULK, 422, chosen | {"action": "cancel"})
    assert refused["errors"][0]["pointer"] == "/filter/fingerprint"
    await call(api, "POST", BULK, 422, chosen | {"action": "retry", "note": "why"})
    await call(api, "GET", TASKS, 422, params={"fingerprint": "0" * 16})


async def test_a_resolution_has_who_when_and_a_note_and_is_listed(
    api: Api, database: Database, connection: Connection
) -> None:
    await fill(connection, 3, "boom")
    await fingerprinted(database)
    first, second, third = [
        each["task_id"] for each in (await call(api, "GET", DEAD, 200))["dead_letters"]
    ]
    done = await call(api, "POST", f"{DEAD}/{first}/archive", 200, {"note": "paid by\nhand"})
    assert (done["resolution"], done["note"]) == ("archived", "paid by\nhand")
    assert done["resolved_at"] is not None
    again = await call(api, "POST", f"{DEAD}/{first}/archive", 200, {"note": "another"})
    assert again == done
    await call(api, "POST", f"{DEAD}/{second}/discard", 422, {"note": "a\u0000b"})
    await call(api, "POST", f"{DEAD}/{second}/discard", 422, {"note": "x" * 1001})
    await call(api, "POST", f"{DEAD}/{second}/discard", 200)
    chosen = {"fingerprint": done["fingerprint"]}
    body = {"action": "archive", "filter": chosen, "note": "all of them"}
    ended = await Stepper(database).done(api, body)
    assert (ended["changed"], ended["note"]) == (1, "all of them")
    for params in ({}, chosen, {"task_type": "nobody"}):
        page = await call(api, "GET", DEAD, 200, params={"resolved": "true"} | params)
        assert [each["task_id"] for each in page["dead_letters"]] == [third, second, first]
    assert [each["note"] for each in page["dead_letters"]] == ["all of them", None, "paid by\nhand"]
    one = await call(api, "GET", DEAD, 200, params={"resolved": "true", "limit": "2"})
    rest = await call(
        api, "GET", DEAD, 200, params={"resolved": "true", "cursor": one["next_cursor"]}
    )
    assert [each["task_id"] for each in rest["dead_letters"]] == [first]
    none = await call(api, "GET", DEAD, 200, params={"resolved": "true", "task_type": "x"})
    assert none == {"dead_letters": [], "next_cursor": None}
    await call(api, "DELETE", f"{TASKS}/{first}", 204)
    await Stepper(database).done(api, {"action": "delete", "filter": {"task_type": "nobody"}})
    assert await connection.fetchval("SELECT count(*) FROM gnomon.resolution") == 0


async def test_resolutions_end_with_the_retention(
    api: Api, database: Database, connection: Connection
) -> None:
    await fill(connection, 2)
    for each in (await call(api, "GET", DEAD, 200))["dead_letters"]:
        await call(api, "POST", f"{DEAD}/{UUID(each['task_id'])}/archive", 200)
    chores = PostgresChores(database, SystemClock())
    assert (await chores.remove(RowKind.RESOLUTIONS, 10, 1.0)).removed == 0
    assert (await chores.remove(RowKind.RESOLUTIONS, 10, -1.0)).removed == 2

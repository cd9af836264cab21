"""`gnomon nodes`: leases, shards, what runs, and how far behind each node is."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import pytest
from tests.commands import cli
from tests.conftest import serving
from tests.integration.identity import make_key, make_operator
from tests.integration.support import database_now, store, submission

from gnomon.clock import new_id_in
from gnomon.model.fleet.shard import SHARDS, owner
from gnomon.store.postgres.database import Database

ALIVE, SILENT, DEAD = UUID(int=1), UUID(int=2), UUID(int=3)


@pytest.fixture(autouse=True)
def here(
    api: aiohttp.ClientSession, database_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", database_dsn)
    monkeypatch.setenv("GNOMON_URL", str(api._base_url))


@pytest.fixture
async def roster(connection: Any) -> None:
    await connection.executemany(
        """
        INSERT INTO gnomon.node (
            incarnation, name, version, slots, started_at, alive_until, dead
        )
        VALUES ($1, $2, '1', 5, gnomon.now(), gnomon.now() + make_interval(secs => $3), $4)
        """,
        [(ALIVE, "good", 60.0, False), (SILENT, "silent", -60, False), (DEAD, "gone", -90, True)],
    )


def shard_for(node: UUID) -> int:
    """One that a node serves, while the dead one serves none."""
    return next(s for s in range(SHARDS) if owner(s, [ALIVE, SILENT]) == node)


async def waiting_in(
    database: Database, connection: Any, shard: int, seconds: float, count: int = 1
) -> None:
    """Tasks that are due since so long; or in so long, where it is negative."""
    now = await database_now(connection)
    keys = await store(
        database, *(submission(now, id=new_id_in(shard, now, n)) for n in range(count))
    )
    await connection.execute(
        "UPDATE gnomon.task SET due_at = gnomon.now() - make_interval(secs => $2) "
        "WHERE id = ANY ($1)",
        [key.id for key in keys],
        seconds,
    )


@pytest.mark.usefixtures("roster")
async def test_each_node_with_its_lease_shards_work_and_lag(
    database: Database, connection: Any
) -> None:
    await waiting_in(database, connection, shard_for(ALIVE), 100.0, count=3)
    await connection.execute("UPDATE gnomon.task SET state = 1, node = $1", ALIVE)
    await waiting_in(database, connection, shard_for(ALIVE), -100.0)
    await waiting_in(database, connection, shard_for(SILENT), 50.0)
    await waiting_in(database, connection, shard_for(SILENT), 200.0)

    found = (await cli("nodes", "--json")).json
    good, silent, gone = found["nodes"]
    assert [n["name"] for n in (good, silent, gone)] == ["good", "silent", "gone"]
    assert [n["state"] for n in (good, silent, gone)] == ["alive", "silent", "dead"]
    assert [n["running"] for n in (good, silent, gone)] == [3, 0, 0]
    assert good["shards"] + silent["shards"] == SHARDS
    assert min(good["shards"], silent["shards"]) > 0
    assert gone["shards"] == 0
    assert 0 < good["lease_seconds"] < 60
    assert -120 < silent["lease_seconds"] < -60
    assert good["lag_seconds"] is None
    assert 200 <= silent["lag_seconds"] < 260
    assert found["due"] == {
        "tasks": 2, "at_least": False, "lag_seconds": silent["lag_seconds"]
    }  # fmt: skip

    table = (await cli("nodes")).out.splitlines()
    assert table[0].split() == [
        "name", "kind", "incarnation", "state", "lease", "serves", "shards", "slots", "running",
        "lag", "started", "version",
    ]  # fmt: skip
    lines = [" ".join(line.split()) for line in table[1:]]
    assert f"everything {good['shards']} of 256 5 3 - " in lines[0]
    assert "silent overdue by " in lines[1]
    assert "gone node 00000000 dead - everything - 5 0 - " in lines[2]
    assert lines[3].startswith("due and waiting: 2, the oldest for 2")


@pytest.mark.usefixtures("roster")
async def test_a_long_backlog_is_counted_so_far_and_no_further(
    database: Database, connection: Any
) -> None:
    assert (await cli("nodes")).out.splitlines()[-1] == ("no task is due and waiting")
    await waiting_in(database, connection, shard_for(ALIVE), 10.0, count=150)
    await waiting_in(database, connection, shard_for(SILENT), 10.0, count=2)
    due = (await cli("nodes", "--json")).json["due"]
    assert (due["tasks"], due["at_least"]) == (102, True)
    assert "at least 102, " in (await cli("nodes")).out


@pytest.mark.usefixtures("roster")
async def test_a_pool_is_shown_and_what_nobody_serves(database: Database, connection: Any) -> None:
    await connection.execute(
        """
        UPDATE gnomon.node
        SET serves = '{"tenants": ["a", "b"], "lanes": [3]}'
        WHERE incarnation = ANY ($1)
        """,
        [ALIVE, SILENT],
    )
    await waiting_in(database, connection, 0, 10.0)
    good, *_ = (await cli("nodes", "--json")).json["nodes"]
    assert good["serves"] == {"tenants": ["a", "b"], "lanes": ["LOW"]}
    assert "tenants a, b; lanes LOW" in (await cli("nodes")).out
    checks = (await cli("doctor", "--json", code=1)).json["checks"]
    detail = next(check["detail"] for check in checks if check["name"] == "handlers")
    assert detail == "no live worker handles test (1 waiting, tenant default)"


@pytest.mark.usefixtures("roster")
@pytest.mark.parametrize(
    ("serves", "is_late"),
    [
        ({"webhooks": False, "handlers": ["test"]}, True),
        ({"webhooks": False, "handlers": ["other"]}, False),
        ({"handlers": []}, False),
        ({"types": ["test"]}, True),
        ({"types": ["other"]}, False),
        ({"tenants": ["default"]}, True),
        ({"tenants": ["another"]}, False),
        ({"lanes": [2]}, True),
        ({"lanes": [3]}, False),
        ({"queues": ["letters"]}, True),
        ({"queues": ["others"]}, False),
    ],
)
async def test_the_lag_of_a_node_is_of_what_it_serves(
    database: Database, connection: Any, serves: dict[str, Any], *, is_late: bool
) -> None:
    await connection.execute(
        "UPDATE gnomon.node SET serves = $1 WHERE incarnation = $2", json.dumps(serves), ALIVE
    )
    await waiting_in(database, connection, shard_for(ALIVE), 100.0)
    await connection.execute("UPDATE gnomon.task SET queue = 'letters'")
    found = (await cli("nodes", "--json")).json
    assert (found["nodes"][0]["lag_seconds"] is not None) == is_late
    assert found["due"]["lag_seconds"] >= 100


async def test_an_empty_roster_says_what_to_start() -> None:
    empty = await cli("nodes")
    assert empty.out == ""
    assert "no node has joined" in empty.err


async def test_the_roster_is_for_operators(
    database_dsn: str, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ops").write_text((await make_operator(database))[1])
    (tmp_path / "admin").write_text((await make_key(database))[1])
    async with serving(database_dsn, auth_enabled=True) as secured:
        monkeypatch.setenv("GNOMON_URL", str(secured._base_url))
        assert (await cli("--key-file", "ops", "nodes", "--json")).json["nodes"] == []
        assert "--operator" in (await cli("--key-file", "admin", "nodes", code=1)).err
        assert "--key-file" in (await cli("nodes", code=1)).err

"""`gnomon types` and `gnomon usage` against the real API."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from tests.commands import api_running, gnomon_here

SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
HEADER = "day,submissions,executions,compute_seconds,stored_bytes"
ROWS = [
    ("default", "2026-11-01", 0, 2, 0, 0.0, 20),
    ("default", "2026-11-01", 64, 0, 3, 1.5, 5),
    ("default", "2026-11-03", 1, 1, 0, 0.0, 0),
    ("other", "2026-11-02", 1, 9, 9, 9.25, 9),
]


@pytest.fixture
def dsn(
    database_dsn: str, tmp_path: Path, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GNOMON_URL", f"http://127.0.0.1:{unused_tcp_port}")
    monkeypatch.setenv("DATABASE_URL", database_dsn)
    with api_running(database_dsn, unused_tcp_port, tmp_path):
        yield database_dsn


async def _enter(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.executemany(
        "INSERT INTO gnomon.usage VALUES ($1, $2::text::date, $3, $4, $5, $6, $7)", ROWS
    )
    await connection.close()


def test_types_are_set_shown_checked_and_removed(dsn: str, tmp_path: Path) -> None:
    nothing = gnomon_here("types", "list")
    assert (nothing.out, nothing.err) == ("", "no task type has a payload schema or defaults\n")
    file = tmp_path / "mail.schema.json"
    file.write_text(json.dumps(SCHEMA))
    assert gnomon_here("types", "set", "mail", str(file)).out.startswith("mail has a payload")
    again = gnomon_here("types", "set", "mail", "-", "--json", stdin=json.dumps(SCHEMA)).json
    assert (again["name"], again["schema"]) == ("mail", SCHEMA)
    assert gnomon_here("types", "show", "mail").json == {"schema": SCHEMA, "defaults": {}}
    assert gnomon_here("types", "show", "mail", "--json").json == again
    assert gnomon_here("types", "list").out.splitlines()[1].split()[0] == "mail"
    assert [t["name"] for t in gnomon_here("types", "list", "--json").json["task_types"]] == [
        "mail"
    ]

    good = gnomon_here("types", "check", "mail", "-", stdin='{"to": "you"}')
    assert (good.code, good.out) == (0, "the payload is as the schema says\n")
    bad = gnomon_here("types", "check", "mail", "-", stdin='{"to": 1}')
    assert bad.code == 1
    assert bad.err.startswith('gnomon: /to: the value is not of type "string"')
    told = gnomon_here("types", "check", "mail", "-", "--json", stdin='{"to": 1}')
    assert (told.code, told.json["valid"]) == (1, False)
    assert [each["pointer"] for each in told.json["errors"]] == ["/to"]

    refused = gnomon_here("types", "set", "mail", "-", stdin='{"$ref": "http://x/y"}')
    assert refused.code == 1
    assert "/schema/$ref: must begin with #" in refused.err
    assert (
        gnomon_here("types", "rm", "mail").out
        == "mail has neither a payload schema nor defaults any more\n"
    )
    assert (
        "the task type mail has neither a schema nor defaults"
        in gnomon_here("types", "rm", "mail").err
    )


def test_usage_is_shown_as_a_table_as_csv_and_as_json(dsn: str) -> None:
    days = ("--from", "2026-11-01", "--to", "2026-11-30")
    assert gnomon_here("usage", *days).err == "nothing was used on these days\n"
    asyncio.run(_enter(dsn))
    header, *rows = gnomon_here("usage", *days).out.splitlines()
    assert header.split() == HEADER.split(",")
    assert [row.split() for row in rows] == [
        ["2026-11-01", "2", "3", "1.5", "25"],
        ["2026-11-03", "1", "0", "0.0", "0"],
    ]
    assert gnomon_here("usage", *days, "--csv").out.splitlines() == [
        HEADER, "2026-11-01,2,3,1.5,25", "2026-11-03,1,0,0.0,0",
    ]  # fmt: skip
    (only,) = gnomon_here("usage", "--to", "2026-11-01", "--json").json["usage"]
    assert (only["day"], only["executions"]) == ("2026-11-01", 3)
    assert gnomon_here("usage", "--all", *days).out.splitlines() == [
        f"tenant,{HEADER}",
        "default,2026-11-01,2,3,1.5,25",
        "default,2026-11-03,1,0,0.0,0",
        "other,2026-11-02,9,9,9.25,9",
    ]
    everybody = gnomon_here("usage", "--all", *days, "--json").json["usage"]
    assert everybody[2]["tenant"] == "other"
    wrong = gnomon_here("usage", "--from", "November")
    assert wrong.code == 2
    assert "not a day like" in wrong.err
    assert gnomon_here("usage", "--csv", "--json").code == 2


@pytest.mark.usefixtures("dsn")
def test_defaults_are_set_beside_the_schema(tmp_path: Path) -> None:
    file = tmp_path / "mail.schema.json"
    file.write_text(json.dumps(SCHEMA))
    gnomon_here("types", "set", "mail", str(file))
    options = ("--timeout", "60s", "--max-retries", "5", "--queue", "mails", "--tag", "x")
    both = gnomon_here("types", "set", "mail", *options, "--json").json
    assert both["schema"] == SCHEMA
    assert both["defaults"] == {
        "timeout_seconds": 60, "retry_policy": {"max_retries": 5}, "queue": "mails", "tags": ["x"]
    }  # fmt: skip
    assert '"mails"' in gnomon_here("types", "list").out
    fewer = gnomon_here("types", "set", "mail", "--expires-after", "1h", "--json").json
    assert fewer["defaults"] == {"expires_after_seconds": 3600}
    assert gnomon_here("types", "set", "mail", str(file), "--json").json["defaults"]
    plain = gnomon_here("types", "set", "mail", "--no-schema", "--no-defaults", "--json").json
    assert (plain["schema"], plain["defaults"]) == (True, {})
    for wrong in ((), (str(file), "--no-schema"), ("--queue", "q", "--no-defaults")):
        assert gnomon_here("types", "set", "mail", *wrong).code == 2

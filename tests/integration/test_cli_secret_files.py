"""Secrets of the command line: never in its arguments, and in files that are one's own."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from tests.commands import Finished, cli, gnomon_here

from gnomon.access.api_key import is_key
from gnomon.cli.main import app

SECRET_WORDS = ("key", "secret", "password", "token", "jwt", "credential", "url", "dsn", "database")
# Options with such a word that take no secret: pointers into payloads, names, addresses.
HARMLESS = {
    "gnomon limits set --key",
    "gnomon submit --idempotency-key",
    "gnomon submit --message-key",
    "gnomon cron add --message-key",
    "gnomon cron trigger --idempotency-key",
    "gnomon cron add --url",
    "gnomon feeds set --url",
    "gnomon worker --url",
    "gnomon workflows run --idempotency-key",
    "gnomon workflows start --idempotency-key",
}


@pytest.fixture(autouse=True)
def here(database_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", database_dsn)


def options_of(command: Any, path: str) -> Iterator[str]:
    for parameter in command.params:
        yield from (f"{path} {name}" for name in parameter.opts if name.startswith("--"))
    for name, each in getattr(command, "commands", {}).items():
        yield from options_of(each, f"{path} {name}")


def test_no_option_takes_a_secret() -> None:
    found = set(options_of(typer.main.get_command(app), "gnomon"))
    suspicious = {
        each
        for each in found
        if any(word in each.rpartition("--")[2] for word in SECRET_WORDS)
        and not each.endswith("-file")
    }
    assert suspicious == HARMLESS


def done(*arguments: str, stdin: str = "") -> Finished:
    finished = gnomon_here(*arguments, stdin=stdin)
    assert finished.code == 0, finished.err
    return finished


def private(name: str) -> str:
    assert stat.S_IMODE(Path(name).stat().st_mode) == 0o600
    return Path(name).read_text().strip()


@pytest.fixture
def careless() -> Iterator[None]:
    """A user whose files are everybody's."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("careless")
async def test_a_key_goes_to_a_file_of_ones_own(tmp_path: Path, connection: Any) -> None:
    create = ("keys", "create", "--role", "read", "--name")
    told = await cli(*create, "shop", "--out", "key")
    key = private("key")
    assert is_key(key)
    assert key not in told.out + told.err
    made = (await cli(*create, "mail", "--out", "second", "--json")).json
    assert (made["file"], "key" in made) == ("second", False)

    # What cannot be written is not made, and nothing is written over.
    before = await connection.fetchval("SELECT count(*) FROM gnomon.api_key")
    for file in ("key", str(tmp_path / "no" / "folder")):
        refused = await cli(*create, "third", "--out", file, code=1)
        assert "nothing was changed" in refused.err
    await cli(*create, "third", "--tenant", "nobody", "--out", "none", code=1)
    assert not Path("none").exists()
    assert await connection.fetchval("SELECT count(*) FROM gnomon.api_key") == before
    assert private("key") == key


@pytest.mark.usefixtures("careless")
def test_a_webhook_secret_goes_to_a_file_of_ones_own() -> None:
    told = done("secrets", "create", "--out", "secret")
    value = private("secret")
    assert value.startswith("whsec_")
    assert value not in told.out + told.err
    made = done("secrets", "create", "--out", "second", "--json")
    assert private("second") not in made.out
    rotated = done("secrets", "rotate", made.json["secret_id"], "--out", "third", "--json")
    done("secrets", "show", rotated.json["secret_id"], "--out", "fourth")
    assert private("third") == private("fourth")

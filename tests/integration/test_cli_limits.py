"""`gnomon limits` against the real API."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.commands import api_running, gnomon_here


@pytest.fixture
def dsn(
    database_dsn: str, tmp_path: Path, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GNOMON_URL", f"http://127.0.0.1:{unused_tcp_port}")
    with api_running(database_dsn, unused_tcp_port, tmp_path):
        yield database_dsn


@pytest.mark.usefixtures("dsn")
def test_limiters_are_set_shown_and_removed() -> None:
    nothing = gnomon_here("limits", "list")
    assert (nothing.out, nothing.err) == ("", "nothing is limited\n")
    mail = gnomon_here("limits", "set", "mail", "--type", "email.send", "--concurrency", "5")
    assert mail.out == "mail: 5 at once, type email.send\n"
    each = gnomon_here(
        "limits", "set", "each", "--key", "/customer", "--queue", "q", "--rate", "9", "--per", "60",
        "--concurrency", "2",
    )  # fmt: skip
    assert each.out == "each: 2 at once and 9 starts in 60 s, queue q, each /customer\n"
    changed = gnomon_here("limits", "set", "mail", "--concurrency", "6", "--json").json
    assert (changed["concurrency"], changed["task_type"]) == (6, None)

    lines = gnomon_here("limits", "list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["limiter", "each", "mail"]
    found = gnomon_here("limits", "list", "--json").json["limiters"]
    assert [limiter["name"] for limiter in found] == ["each", "mail"]
    shown = gnomon_here("limits", "show", "each").out.splitlines()
    assert shown[1:] == ["running: 0", "started: 0", "waiting: 0"]
    assert gnomon_here("limits", "show", "mail", "--json").json == changed

    assert gnomon_here("limits", "rm", "mail").out == "mail is removed\n"
    gone = gnomon_here("limits", "show", "mail")
    assert (gone.code, gone.err) == (
        1,
        "gnomon: Not found: there is no limiter mail\n",
    )
    wrong = gnomon_here("limits", "set", "mail")
    assert wrong.code == 1
    assert "say what is limited" in wrong.err

"""`gnomon notify` against the real API."""

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
def test_subscriptions_are_added_shown_muted_and_removed(tmp_path: Path) -> None:
    nothing = gnomon_here("notify", "list")
    assert (nothing.out, nothing.code) == ("", 0)
    assert "gnomon notify add" in nothing.err
    added = gnomon_here("notify", "add", "ops", "--webhook", "http://127.0.0.1:9/hook?key=s3cr3t")
    assert added.out == "ops: webhook http://127.0.0.1:9/hook?key=***, active\n"
    url = tmp_path / "url"
    url.write_text("https://hooks.slack.com/services/s3cr3t\n")
    chat = gnomon_here(
        "notify", "add", "chat", "--slack", str(url), "--installation", "--all-tenants",
        "--kind", "tasks.*", "--quiet", "22:00-07:00", "--zone", "Europe/Berlin", "--digest", "10m",
    )  # fmt: skip
    assert chat.out == "chat: slack https://hooks.slack.com/***, active\n"
    shown = gnomon_here("notify", "show", "chat", "--installation").out
    assert "22:00 to 07:00 Europe/Berlin" in shown
    assert "every 10m" in shown
    muted = gnomon_here("notify", "mute", "ops", "2h")
    assert muted.out.startswith("ops: webhook")
    assert "muted until" in muted.out
    kept = gnomon_here("notify", "add", "ops", "--severity", "error", "--json").json
    assert kept["severity"] == "error"
    assert kept["muted_until"] is not None
    assert kept["channel"]["to"].endswith("?key=***")
    assert gnomon_here("notify", "unmute", "ops").out.endswith("active\n")
    listed = gnomon_here("notify", "list")
    assert "s3cr3t" not in listed.out
    assert all(len(line) <= 240 for line in listed.out.splitlines())
    wrong = gnomon_here("notify", "confirm", "nonsense")
    assert wrong.code == 1
    assert "no subscription waits for this token" in wrong.err
    two = gnomon_here("notify", "add", "x", "--webhook", "http://a/", "--email", "a@example.com")
    assert two.code != 0
    unset = gnomon_here("notify", "add", "x", "--email", "a@example.com")
    assert "notify.smtp_host" in unset.err
    assert gnomon_here("notify", "remove", "ops").out == "ops is removed\n"
    assert gnomon_here("notify", "show", "ops").code == 1

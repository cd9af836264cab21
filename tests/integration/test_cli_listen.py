"""`gnomon listen`, a real process called over real sockets."""

import base64
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
from standardwebhooks.webhooks import Webhook
from tests.commands import running
from tests.integration.identity import make_tenant
from tests.integration.webhook_calls import rotate

from gnomon.store.postgres.database import Database
from gnomon.store.postgres.identity.webhook_secrets import PostgresSecrets

SECRET = "whsec_" + base64.b64encode(bytes(32)).decode()


def headers(task: str, body: str, attempt: int = 1, secret: str = SECRET) -> dict[str, str]:
    now = datetime.now(UTC)
    return {
        "webhook-id": task,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign(task, now, body),
        "gnomon-attempt": str(attempt),
        "gnomon-scheduled-for": (now - timedelta(seconds=2)).isoformat().replace("+00:00", "Z"),
    }


async def test_calls_are_told_and_the_first_ones_fail(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    arguments = ["--port", "0", "--json", "--fail", "1", "--status", "500"]
    arguments += ["--secret-file", "secret"]
    with running("listen", *arguments, cwd=tmp_path) as receiver:
        url = receiver.event("listening")["url"]
        async with aiohttp.ClientSession() as session:
            for attempt, expected in ((1, 500), (2, 200), (3, 200)):
                sent = headers("task-1", '{"n": 1}', attempt)
                async with session.post(f"{url}a?b=c", data='{"n": 1}', headers=sent) as answer:
                    assert answer.status == expected
                call = receiver.event("call")
                assert call["answered"] == expected
                assert call["attempt"] == attempt
            async with session.put(url, data="x", headers=headers("task-2", "y")) as answer:
                assert answer.status == 500
        forged = receiver.event("call")
        receiver.interrupt()
        summary = receiver.event("summary")
        assert receiver.wait() == 0
    assert call["method"] == "POST"
    assert call["path"] == "/a?b=c"
    assert call["webhook_id"] == "task-1"
    assert call["signature"] == "ok"
    assert call["body"] == '{"n": 1}'
    assert 2 <= call["delay_seconds"] < 30
    assert forged["signature"] == "BAD"
    # The third call came although the second had been accepted.
    assert summary == {"event": "summary", "calls": 4, "tasks": 2, "duplicates": 1}


async def test_for_people_it_prints_lines(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET + "\n")
    env = {"GNOMON_TARGETS_WEBHOOK_SECRET_FILE": str(tmp_path / "secret")}
    with running("listen", "--port", "0", cwd=tmp_path, env=env) as receiver:
        first = receiver.line()
        url = first.split()[2].rstrip(";")
        assert "signatures are checked" in first
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, data="{}", headers=headers("task-1", "{}")) as answer,
        ):
            assert answer.status == 200
        line = receiver.line()
        receiver.process.send_signal(signal.SIGTERM)
        assert receiver.line(lambda text: "calls" in text) == "1 calls, 1 tasks, 0 duplicates"
        assert receiver.wait() == 0
    for part in ("POST / -> 200", "task-1", "attempt 1", " ms", "signature ok", "{}"):
        assert part in line


async def test_a_call_that_is_no_webhook_is_told_too(tmp_path: Path) -> None:
    with running("listen", "--port", "0", "--json", cwd=tmp_path) as receiver:
        url = receiver.event("listening")["url"]
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            assert answer.status == 200
        call = receiver.event("call")
    assert call["webhook_id"] is None
    assert call["delay_seconds"] is None
    assert call["signature"] is None


async def test_secrets_of_every_tenant_are_asked_of_the_database(
    tmp_path: Path, database_dsn: str, database: Database
) -> None:
    await make_tenant(database, "acme")
    secrets = PostgresSecrets(database)
    (first,) = await secrets.list("acme")
    old = str((await secrets.show("acme", first.id)).value)
    env = {"DATABASE_URL": database_dsn}
    with running("listen", "--port", "0", "--json", cwd=tmp_path, env=env) as receiver:
        url = receiver.event("listening")["url"]

        async def judged(secret: str, tenant: str = "acme") -> str | None:
            sent = headers("task-1", "{}", secret=secret) | {"gnomon-tenant": tenant}
            async with aiohttp.ClientSession() as session:
                await session.post(url, data="{}", headers=sent)
            call = receiver.event("call")
            assert call["tenant"] == tenant
            signature: str | None = call["signature"]
            return signature

        assert await judged(old) == "ok"
        new = str((await rotate(database, first.id, 0.0, "acme")).value)
        assert await judged(new) == "ok"
        assert await judged(SECRET) == "BAD"
        assert await judged(new, "nobody") is None

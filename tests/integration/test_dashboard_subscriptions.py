"""The pages of notifications over HTTP: what their forms do, and for whom."""

from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from tests.conftest import serving
from tests.integration.api_calls import Api, call
from tests.integration.identity import make_key, make_operator
from tests.integration.nodes import Receiver, running_node
from tests.integration.test_dashboard import guarded, posted, shown, signed_in
from tests.integration.test_dashboard_admin import answered, done
from tests.integration.test_notifications import receiver
from tests.waiting import eventually

from gnomon.access.principal import Role
from gnomon.store.postgres.database import Database

__all__ = ["guarded", "receiver"]
HERE, API = "/subscriptions", "/api/v1/subscriptions"
OF_OPERATORS = "/operator-subscriptions"
SECRET = "https://chat.example.com/hooks/hush-hush"
FORM = {
    "name": "on-call", "type": "webhook", "address": "https://example.com/alarm", "kinds": "*",
    "severity": "error",
}  # fmt: skip


async def test_a_subscription_is_added_changed_muted_and_removed(api: Api) -> None:
    assert "Nobody is told of anything yet." in await shown(api, HERE)
    form = FORM | {"kinds": "tasks.*\nbreaker.opened", "task_types": "a\n\n b ", "tags": "x"}
    assert await done(api, HERE, form) == f"{HERE}/on-call?done=subscription_created"
    found = await call(api, "GET", f"{API}/on-call", 200)
    assert found["channel"]["to"] == "https://example.com/alarm"
    assert (found["kinds"], found["severity"]) == (["tasks.*", "breaker.opened"], "error")
    assert (found["task_types"], found["tags"], found["enabled"]) == (["a", "b"], ["x"], True)
    assert (found["digest_seconds"], found["quiet_hours"]) == (300, None)
    change = {"kinds": "*", "severity": "info", "digest_seconds": "60", "resolve_seconds": "120",
              "start": "22:00", "end": "07:00", "timezone": "Europe/Vienna",
              "errors_through": "yes", "disabled": "yes"}  # fmt: skip
    assert await done(api, f"{HERE}/on-call", change) == f"{HERE}/on-call?done=subscription_changed"
    found = await call(api, "GET", f"{API}/on-call", 200)
    assert found["channel"]["to"] == "https://example.com/alarm"  # nothing was said of it
    assert (found["enabled"], found["digest_seconds"], found["task_types"]) == (False, 60, [])
    quiet = {"start": "22:00", "end": "07:00", "timezone": "Europe/Vienna", "errors_through": True}
    assert found["quiet_hours"] == quiet
    text = unescape(await shown(api, f"{HERE}/on-call"))
    assert "switched off" in text
    assert "22:00 to 07:00, Europe/Vienna" in text
    assert await done(api, f"{HERE}/on-call", change | {"disabled": ""})
    assert await done(api, f"{HERE}/on-call/mute", {"hours": "8"}) == f"{HERE}/on-call?done=muted"
    assert "Muted until" in await shown(api, HERE)
    assert await done(api, f"{HERE}/on-call/unmute") == f"{HERE}/on-call?done=unmuted"
    assert (await call(api, "GET", f"{API}/on-call", 200))["muted_until"] is None
    assert await done(api, f"{HERE}/on-call/delete") == f"{HERE}?done=subscription_deleted"
    await shown(api, f"{HERE}/on-call", 404)
    await answered(api, f"{HERE}/on-call", change, 404)
    await call(api, "GET", f"{API}/on-call", 404)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": ".."}, "name"),
        ({"address": ""}, "address"),
        ({"address": "ftp://x"}, "address"),
        ({"type": "email", "address": "nobody"}, "address"),
        ({"type": "email", "address": "a@example.com"}, "type"),
        ({"type": "pigeon"}, "type"),
        ({"type": "apprise", "address": "ntfy://hush-hush"}, "type"),
        ({"kinds": "Tasks!"}, "kinds"),
        ({"severity": "loud"}, "severity"),
        ({"start": "22:00", "end": "25:00"}, "end"),
        ({"start": "22:00", "end": "07:00", "timezone": "Nowhere"}, "timezone"),
        ({"digest_seconds": "1"}, "digest_seconds"),
        ({"digest_seconds": "soon"}, "digest_seconds"),
        ({"all_tenants": "yes"}, "all_tenants"),
    ],
)
async def test_what_is_wrong_is_told_beside_its_field(
    shared_api: Api, wrong: dict[str, str], field: str
) -> None:
    text = await answered(shared_api, HERE, FORM | wrong, 422)
    assert f'href="#{field}"' in text
    assert "hush-hush" not in text
    assert (await call(shared_api, "GET", API, 200))["subscriptions"] == []


async def test_one_of_the_same_name_is_changed_on_its_own_page_only(api: Api) -> None:
    await done(api, HERE, FORM)
    text = await answered(api, HERE, FORM | {"address": "https://other.example.com"}, 422)
    assert "is the name of another subscription" in text
    found = await call(api, "GET", f"{API}/on-call", 200)
    assert found["channel"]["to"] == "https://example.com/alarm"


async def test_secrets_of_channels_are_shown_nowhere(api: Api) -> None:
    await done(api, HERE, FORM | {"type": "slack", "address": SECRET})
    hidden = FORM | {"name": "b", "address": "https://example.com/x?token=hush-hush"}
    await done(api, HERE, hidden)
    for path in (HERE, f"{HERE}/on-call", f"{HERE}/b"):
        text = await shown(api, path)
        assert "hush-hush" not in text
        assert "***" in text
    for form in (hidden, FORM | {"type": "slack", "address": SECRET}):
        assert "hush-hush" not in await answered(api, HERE, form | {"kinds": "!"}, 422)
        text = await answered(api, f"{HERE}/b", form | {"kinds": "!"}, 422)
        assert "hush-hush" not in text


async def test_a_test_is_sent_and_its_answer_shown(
    api: Api, database_dsn: str, receiver: Receiver
) -> None:
    await done(api, HERE, FORM | {"name": "ü? #1", "address": receiver.url})
    here = f"{HERE}/{quote('ü? #1', safe='')}"
    assert "Nothing was sent yet." in await shown(api, here)
    assert await done(api, f"{here}/test") == f"{here}?done=test_sent"
    async with running_node(database_dsn):

        async def is_told() -> bool:
            return "completed" in await shown(api, here)

        await eventually(is_told)


async def test_the_subscriptions_of_operators_are_apart(guarded: Api, database: Database) -> None:
    _, admin = await make_key(database, name="admin")
    _, reader = await make_key(database, name="reader", roles=[Role.READ])
    _, operator = await make_operator(database)
    async with signed_in(guarded, operator) as browser:
        form = FORM | {"name": "operators", "all_tenants": "yes", "type": "apprise",
                       "address": "ntfy://hush-hush"}  # fmt: skip
        assert (await posted(browser, OF_OPERATORS, form)).status == 303
        text = await shown(browser, OF_OPERATORS)
        assert "of all tenants" in text
        assert "hush-hush" not in text
        await shown(browser, HERE, 403)
    async with signed_in(guarded, admin) as browser:
        assert (await posted(browser, HERE, FORM)).status == 303
        assert "operators" not in _main(await shown(browser, HERE))
        await shown(browser, f"{HERE}/operators", 404)
        await shown(browser, OF_OPERATORS, 403)
        assert (await posted(browser, f"{OF_OPERATORS}/operators/delete")).status == 403
    async with signed_in(guarded, reader) as browser:
        assert "<form" not in _main(await shown(browser, f"{HERE}/on-call"))
        assert (await posted(browser, f"{HERE}/on-call/delete")).status == 403


async def test_an_address_waits_for_consent(database_dsn: str) -> None:
    settings: dict[str, Any] = {"notify_smtp_host": "127.0.0.1", "notify_sender": "a@example.com"}
    async with serving(database_dsn, **settings) as api:
        await done(api, HERE, FORM | {"type": "email", "address": "ops@example.com"})
        text = await shown(api, f"{HERE}/on-call")
        assert "waits for consent" in text
        assert "/on-call/test" not in text
        await answered(api, f"{HERE}/on-call/test", {}, 409)


def _main(text: str) -> str:
    return text[text.index("<main") : text.index("</main>")]

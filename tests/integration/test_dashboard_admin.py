"""The pages of administration over HTTP: what their forms do, and for whom."""

import re
from collections.abc import AsyncIterator
from html import unescape
from typing import Any, TypeAlias
from uuid import uuid4

import aiohttp
import asyncpg
import pytest
from tests.conftest import serving
from tests.integration.api_calls import call
from tests.integration.identity import bearer, make_key, make_operator, make_tenant
from tests.integration.test_dashboard import origin_of, posted, shown, signed_in

from gnomon.access.principal import TENANT_ROLES, Role
from gnomon.store.postgres.database import Database

Api = aiohttp.ClientSession
Connection: TypeAlias = "asyncpg.Connection[Any]"
LIMIT = {"name": "mail", "concurrency": "5", "rate": "", "per_seconds": "1", "task_type": "email"}
KEY = re.compile(r"gn_[0-9A-Za-z]{38}")


@pytest.fixture
async def guarded(database_dsn: str) -> AsyncIterator[Api]:
    """An API with authentication."""
    async with serving(database_dsn, auth_enabled=True) as client:
        yield client


async def answered(api: Api, path: str, form: dict[str, str], status: int) -> str:
    """The page that a form is answered with."""
    async with api.post(path, data=form, headers=origin_of(api), allow_redirects=False) as answer:
        text = await answer.text()
        assert answer.status == status, text
        assert answer.headers["cache-control"] == "no-store"
        return text


async def done(api: Api, path: str, form: dict[str, str] | None = None) -> str:
    """Where a form that was accepted leads to."""
    answer = await posted(api, path, form)
    assert answer.status == 303
    return answer.headers["location"]


async def test_a_limit_is_made_changed_and_removed(api: Api) -> None:
    assert "There is no limit." in await shown(api, "/limits")
    assert await done(api, "/limits", LIMIT) == "/limits/mail?done=limit_created"
    text = await shown(api, "/limits/mail")
    assert "Of tasks of type email, at most 5 run at once." in unescape(text)
    change = {"concurrency": "", "rate": "100", "per_seconds": "60", "key": "/customer"}
    assert await done(api, "/limits/mail", change) == "/limits/mail?done=limit_changed"
    found = await call(api, "GET", "/api/v1/limiters/mail", 200)
    assert (found["concurrency"], found["rate"], found["per_seconds"]) == (None, 100, 60)
    assert (found["task_type"], found["key"]) == (None, "/customer")
    assert await done(api, "/limits/mail/delete") == "/limits?done=limit_deleted"
    await shown(api, "/limits/mail", 404)
    await answered(api, "/limits/mail", change, 404)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"concurrency": "many"}, "concurrency"),
        ({"concurrency": ""}, "concurrency"),
        ({"name": "a b<script>"}, "name"),
        ({"per_seconds": "0.1"}, "per_seconds"),
        ({"key": "customer"}, "key"),
        ({"concurrency": "nan"}, "concurrency"),
    ],
    ids=str,
)
async def test_a_refused_limit_comes_back_as_it_was_typed(
    shared_api: Api, wrong: dict[str, str], field: str
) -> None:
    form = LIMIT | wrong
    text = await answered(shared_api, "/limits", form, 422)
    assert f'id="wrong-{field}"' in text
    for name, typed in form.items():
        assert f'name="{name}"' in text
        assert f'value="{typed}"' in unescape(text)
    assert "<script>" not in text
    assert (await call(shared_api, "GET", "/api/v1/limiters", 200))["limiters"] == []


async def test_a_limit_of_the_same_name_is_not_replaced_by_a_new_one(api: Api) -> None:
    await done(api, "/limits", LIMIT)
    text = await answered(api, "/limits", LIMIT | {"concurrency": "7"}, 422)
    assert "is the name of another limiter" in text
    assert (await call(api, "GET", "/api/v1/limiters/mail", 200))["concurrency"] == 5


async def test_a_tenant_is_made_changed_and_removed(api: Api) -> None:
    form = {"tenant_id": "acme", "plan": "standard", "weight": "2"}
    assert await done(api, "/tenants", form) == "/tenants/acme?done=tenant_created"
    assert 'value="acme"' in await answered(api, "/tenants", form, 409)
    change = form | {
        "cron_jobs": "7",
        "stored_bytes": "none",
        "scheduled_tasks": "0",
        "hosts": "*.example.com\r\nshop.test",
        "functions": "",
        "targets_allow": "10.1.0.0/16",
    }
    assert await done(api, "/tenants/acme", change) == "/tenants/acme?done=tenant_changed"
    found = await call(api, "GET", "/api/v1/tenants/acme", 200)
    assert found["own_quotas"] == {"cron_jobs": 7, "stored_bytes": None, "scheduled_tasks": 0}
    assert (found["hosts"], found["functions"]) == (["*.example.com", "shop.test"], None)
    # The form that is shown says the same again.
    text = await shown(api, "/tenants/acme")
    for value in ('value="7"', 'value="none"', 'value="0"', "10.1.0.0/16", "*.example.com"):
        assert value in text
    again = dict.fromkeys(change, "") | {"plan": "unlimited", "weight": "1"}
    assert await done(api, "/tenants/acme", again)
    found = await call(api, "GET", "/api/v1/tenants/acme", 200)
    assert (found["plan"], found["own_quotas"], found["hosts"]) == ("unlimited", {}, None)
    assert await done(api, "/tenants/acme/delete") == "/tenants?done=tenant_deleted"
    await shown(api, "/tenants/acme", 404)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"cron_jobs": "NaN"}, "cron_jobs"),
        ({"cron_jobs": "-1"}, "cron_jobs"),
        ({"weight": "0"}, "weight"),
        ({"plan": "gold"}, "plan"),
        ({"targets_allow": "10.1.0.0/16\nsomewhere"}, "targets_allow"),
        ({"hosts": "a b"}, "hosts"),
    ],
    ids=str,
)
async def test_a_refused_tenant_keeps_what_was_typed(
    shared_api: Api, wrong: dict[str, str], field: str
) -> None:
    form = {"plan": "standard", "weight": "3", "stored_bytes": "12345"} | wrong
    text = await answered(shared_api, "/tenants/default", form, 422)
    assert f'id="wrong-{field}"' in text
    assert 'value="12345"' in text
    assert (await call(shared_api, "GET", "/api/v1/tenants/default", 200))["own_quotas"] == {}


async def test_the_tenants_of_a_page_show_what_they_used_today(
    api: Api, database: Database
) -> None:
    async with database.connection() as connection:
        await connection.execute(
            "INSERT INTO gnomon.tenant (id) SELECT 't' || n FROM generate_series(100, 160) AS n"
        )
        await connection.execute(
            "INSERT INTO gnomon.usage (tenant_id, day, session, submissions)"
            " VALUES ('t100', (gnomon.now() AT TIME ZONE 'UTC')::date, 1, 424242),"
            " ('t160', (gnomon.now() AT TIME ZONE 'UTC')::date, 1, 434343)"
        )
    first = await shown(api, "/tenants")
    assert "424\u202f242" in first
    assert "434\u202f343" not in first
    more = re.search(r'href="(/tenants\?cursor=[^"]+)"', first)
    assert more is not None
    second = await shown(api, unescape(more[1]))
    assert "434\u202f343" in second
    assert 'href="/tenants/t160"' in second
    assert "424\u202f242" in await shown(api, "/tenants/t100")


async def test_a_task_type_is_kept_and_removed(api: Api) -> None:
    form = {"name": "email", "schema": '{"type": "object"}', "defaults": '{"queue": "q"}'}
    assert await done(api, "/task-types", form) == "/task-types/email?done=type_changed"
    found = await call(api, "GET", "/api/v1/task-types/email", 200)
    assert (found["schema"], found["defaults"]["queue"]) == ({"type": "object"}, "q")
    for wrong, field in (
        ({"schema": "{"}, "schema"),
        ({"schema": '{"type": "thing"}'}, "schema"),
        ({"defaults": '{"colour": 1}'}, "colour"),
        ({"defaults": '{"timeout_seconds": -1}'}, "timeout_seconds"),
    ):
        text = await answered(api, "/task-types/email", form | wrong, 422)
        assert next(iter(wrong.values())) in unescape(text)
        assert field in text
    assert await done(api, "/task-types/email", {"schema": "", "defaults": ""})
    assert "any payload will do" in await shown(api, "/task-types/email")
    assert await done(api, "/task-types/email/delete") == "/task-types?done=type_deleted"
    await answered(api, "/task-types", {"name": " "}, 422)


async def test_without_authentication_no_key_and_no_secret_is_made(
    api: Api, database: Database
) -> None:
    some = str(uuid4())
    for path in ("/keys", "/operator-keys", "/webhook-secrets"):
        assert "Authentication is off" in await shown(api, path)
        for action in ("", f"/{some}/rotate", f"/{some}/revoke"):
            form = {"name": "x", "role_admin": "yes"}
            assert (await posted(api, path + action, form)).status == 403
    assert (await posted(api, f"/webhook-secrets/{some}/show")).status == 403
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM gnomon.api_key") == 0


@pytest.mark.parametrize("path", ["/keys", "/operator-keys"])
async def test_a_key_is_shown_once_and_ends_when_it_is_revoked(
    guarded: Api, database: Database, path: str
) -> None:
    of_tenant = path == "/keys"
    own_id, own = await (make_key(database) if of_tenant else make_operator(database))
    asked = "/api/v1/tasks" if of_tenant else "/api/v1/nodes"
    async with signed_in(guarded, own) as browser:
        form = {"name": "billing", "role_read": "yes", "expires_at": "2190-01-01T00:00"}
        (key,) = KEY.findall(await answered(browser, path, form, 201))
        await call(guarded, "GET", asked, 200, headers=bearer(key))
        text = await shown(browser, path)
        assert KEY.findall(text) == []
        (key_id,) = set(re.findall(rf'action="{path}/([^/"]+)/revoke"', text)) - {str(own_id)}
        rotated = await answered(browser, f"{path}/{key_id}/rotate", {"overlap_hours": "24"}, 201)
        (newer,) = KEY.findall(rotated)
        assert newer != key
        for each in (key, newer):
            await call(guarded, "GET", asked, 200, headers=bearer(each))
        there = await done(browser, f"{path}/{key_id}/revoke")
        assert there == f"{path}?done=key_revoked"
        await call(guarded, "GET", asked, 200, headers=bearer(newer))
        await answered(browser, f"{path}/{key_id}/rotate", {}, 409)


async def test_a_refused_key_says_why(guarded: Api, database: Database) -> None:
    _, admin = await make_key(database, roles=[Role.ADMIN], task_types=["email"])
    async with signed_in(guarded, admin) as browser:
        for form, status, field in (
            ({"name": "", "role_read": "yes"}, 422, "name"),
            ({"name": "x"}, 422, "roles"),
            ({"name": "x", "role_read": "yes", "expires_at": "soon"}, 422, "expires_at"),
            (
                {"name": "x", "role_read": "yes", "expires_at": "1999-01-01T00:00"},
                422,
                "expires_at",
            ),
            ({"name": "x", "role_submit": "yes"}, 403, "task_types"),
            (
                {"name": "x", "role_read": "yes", "task_types": "email", "hosts": "a b"},
                422,
                "hosts",
            ),
        ):
            text = await answered(browser, "/keys", form, status)
            assert f'id="wrong-{field}"' in text, form
            assert KEY.findall(text) == []
        form = {"name": "x", "role_submit": "yes", "task_types": "email"}
        assert len(KEY.findall(await answered(browser, "/keys", form, 201))) == 1


async def test_webhook_secrets_are_shown_by_a_form_only(guarded: Api, database: Database) -> None:
    _, admin = await make_key(database)
    async with signed_in(guarded, admin) as browser:
        text = await answered(browser, "/webhook-secrets", {"host": "shop.test"}, 201)
        (made,) = re.findall(r"whsec_[\w+/=]+", text)
        text = await shown(browser, "/webhook-secrets")
        assert "whsec_" not in text.replace("whsec_…", "")
        card = text[text.index("<bdi>shop.test</bdi>") :]
        found = re.search(r'action="(/webhook-secrets/[^/"]+)/show"', card)
        assert found is not None
        assert made in await answered(browser, f"{found[1]}/show", {}, 200)
        assert made not in await answered(browser, f"{found[1]}/rotate", {}, 201)
        assert await done(browser, f"{found[1]}/revoke") == "/webhook-secrets?done=secret_revoked"
        typed = {"host": "a b", "secret": "whsec_" + "A" * 40}
        assert typed["secret"] not in await answered(browser, "/webhook-secrets", typed, 422)


_ADMIN_ACTIONS: dict[str, dict[str, str]] = {
    "/limits": LIMIT,
    "/limits/there": LIMIT,
    "/limits/there/delete": {},
    "/task-types": {"name": "other"},
    "/task-types/there": {},
    "/task-types/there/delete": {},
    "/keys": {"name": "made", "role_read": "yes"},
    "/webhook-secrets": {},
}
_OPERATOR_ACTIONS: dict[str, dict[str, str]] = {
    "/tenants": {"tenant_id": "made"},
    "/tenants/other": {"plan": "standard", "weight": "1"},
    "/operator-keys": {"name": "made"},
    "/tenants/other/delete": {},
}


@pytest.mark.parametrize("role", [*sorted(TENANT_ROLES), Role.OPERATOR])
async def test_what_a_role_may_do_by_hand(guarded: Api, database: Database, role: Role) -> None:
    await make_tenant(database, "other")
    _, admin = await make_key(database, name="admin")
    limiter: Any = {"concurrency": 1}
    await call(guarded, "PUT", "/api/v1/limiters/there", 201, limiter, headers=bearer(admin))
    await call(guarded, "PUT", "/api/v1/task-types/there", 201, {}, headers=bearer(admin))
    if role is Role.OPERATOR:
        _, key = await make_operator(database)
    else:
        _, key = await make_key(database, name="mine", roles=[role])
    allowed = {Role.ADMIN: _ADMIN_ACTIONS, Role.OPERATOR: _OPERATOR_ACTIONS}.get(role, {})
    async with signed_in(guarded, key) as browser:
        for path, form in (_ADMIN_ACTIONS | _OPERATOR_ACTIONS).items():
            status = (await posted(browser, path, form)).status
            assert (status in (201, 303)) == (path in allowed), path
            assert (status == 403) == (path not in allowed), path


async def test_what_is_another_tenant_s_looks_unknown(guarded: Api, database: Database) -> None:
    await make_tenant(database, "other")
    _, mine = await make_key(database)
    key_id, theirs = await make_key(database, "other", name="theirs")
    put = {"concurrency": 1}
    await call(guarded, "PUT", "/api/v1/limiters/unseen", 201, put, headers=bearer(theirs))
    await call(guarded, "PUT", "/api/v1/task-types/unseen", 201, {}, headers=bearer(theirs))
    secrets = await call(guarded, "GET", "/api/v1/webhook-secrets", 200, headers=bearer(theirs))
    secret = f"/webhook-secrets/{secrets['webhook_secrets'][0]['secret_id']}"
    async with signed_in(guarded, mine) as browser:
        for path in ("/limits/unseen", "/task-types/unseen"):
            await shown(browser, path, 404)
        form = {"concurrency": "9", "overlap_hours": "1"}
        for path in (
            "/limits/unseen", "/limits/unseen/delete", "/task-types/unseen",
            "/task-types/unseen/delete",
            f"/keys/{key_id}/rotate", f"/keys/{key_id}/revoke",
            f"{secret}/show", f"{secret}/rotate", f"{secret}/revoke",
        ):  # fmt: skip
            assert (await posted(browser, path, form)).status == 404, path
        for path in ("/limits", "/task-types", "/keys", "/webhook-secrets"):
            text = await shown(browser, path)
            assert "unseen" not in text
            assert str(key_id) not in text
    await call(guarded, "GET", "/api/v1/tasks", 200, headers=bearer(theirs))


async def test_who_is_offered_which_pages(guarded: Api, database: Database) -> None:
    _, reader = await make_key(database, name="reader", roles=[Role.READ])
    _, admin = await make_key(database, name="admin", roles=[Role.ADMIN])
    _, operator = await make_operator(database)
    work = {"/", "/tasks", "/dead-letters", "/cron", "/limits", "/task-types", "/usage"}
    managed = {"/keys", "/webhook-secrets"}
    installation = {"/nodes", "/tenants", "/plans", "/operator-keys"}
    for key, page, there, missing in (
        (reader, "/limits", work, managed | installation),
        (admin, "/limits", work | managed, installation),
        (operator, "/nodes", installation, work - {"/"} | managed),
    ):
        async with signed_in(guarded, key) as browser:
            text = await shown(browser, page)
            bar = set(re.findall(r'href="([^"]+)"', text[: text.index("</nav>")]))
            assert there <= bar
            assert not missing & bar
    async with signed_in(guarded, reader) as browser:
        assert "Last 30 days" not in await shown(browser, "/usage")
    async with signed_in(guarded, admin) as browser:
        assert "Last 30 days" in await shown(browser, "/usage")


async def test_a_key_of_a_limit_that_holds_tasks_up_is_told_everywhere(
    api: Api, connection: Connection
) -> None:
    limit = {"key": "/customer", "rate": 1, "per_seconds": 3600}
    await call(api, "PUT", "/api/v1/limiters/each", 201, limit)
    await call(api, "PUT", "/api/v1/limiters/other", 201, limit | {"task_type": "other"})
    await connection.execute(
        """
        INSERT INTO gnomon.task (tenant_id, id, due_at, task_type, target, limit_keys)
        VALUES ('default', overlay(gen_random_uuid()::text PLACING '7' FROM 15)::uuid,
                gnomon.now(), 'mail', '{}', '{"each": "ann"}')
        """
    )
    assert "None: every <a" in await shown(api, "/")
    assert "holds tasks up" not in await shown(api, "/limits")
    await connection.execute(
        """
        WITH bucket AS (
            INSERT INTO gnomon.limit_bucket (tenant_id, limiter, key)
            VALUES ('default', 'each', 'ann') RETURNING id
        )
        INSERT INTO gnomon.limit_window (bucket, until, starts)
        SELECT id, gnomon.now() + interval '1 minute', 1 FROM bucket
        """
    )
    assert '<a href="/limits/each">' in await shown(api, "/")
    assert (await shown(api, "/limits")).count("holds tasks up") == 1
    assert "holds tasks up" in await shown(api, "/limits/each")

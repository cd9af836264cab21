"""First keys, created on the database: nobody has a key yet to ask the API with."""

from typing import TYPE_CHECKING, Any

import typer

from gnomon.access.principal import OPERATOR_ROLES, Grant
from gnomon.cli.shared import database
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.settings import Settings

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Database
    from gnomon.usecases.admin.keys import CreatedKey


def works_on_database(ctx: typer.Context, settings: Settings) -> bool:
    """Whether a command manages credentials on the database: it has no key, and does not name an
    API, which could be another installation's."""
    return settings.api.key is None and not names_api(ctx)


def names_api(ctx: typer.Context) -> bool:
    """Whether `--api` was given."""
    source = ctx.get_parameter_source("api")
    return source is not None and source.name == "COMMANDLINE"


def create_on_database(
    settings: Settings, key: dict[str, Any], tenant: str | None, *, operator: bool
) -> dict[str, Any]:
    """Create the key that the API would create from this document; gives what it would answer."""
    from gnomon.clock import SystemClock
    from gnomon.store.postgres.identity.api_keys import PostgresKeys
    from gnomon.usecases.admin.keys import WantedKey, create_first

    wanted = WantedKey(
        name=key["name"],
        grant=Grant(roles=OPERATOR_ROLES) if operator else _grant(key),
        expires_at=key.get("expires_at"),
    )
    owner = None if operator else tenant or DEFAULT_TENANT

    async def create(opened: "Database") -> "CreatedKey":
        return await create_first(PostgresKeys(opened), SystemClock(), owner, wanted)

    return _answer(database.with_database(settings, create))


def _grant(key: dict[str, Any]) -> Grant:
    from gnomon.usecases.admin.allow_lists import allow_list_of

    types, queues = key.get("task_types"), key.get("queues")
    return Grant(
        roles=frozenset(key["roles"]),
        task_types=None if types is None else frozenset(types),
        queues=None if queues is None else frozenset(queues),
        allow=allow_list_of(key.get("functions"), key.get("hosts")),
    )


def _answer(created: "CreatedKey") -> dict[str, Any]:
    key = created.key
    return {
        "key_id": key.id,
        "tenant_id": key.tenant_id,
        "name": key.name,
        "hint": key.hint,
        "roles": sorted(key.roles),
        "task_types": None if key.task_types is None else sorted(key.task_types),
        "queues": None if key.queues is None else sorted(key.queues),
        "functions": key.allow.functions,
        "hosts": key.allow.hosts,
        "created_at": key.created_at,
        "created_by": key.created_by,
        "made_by": key.made_by,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
        "key": created.secret,
    }

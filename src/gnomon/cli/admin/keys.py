"""`gnomon keys`: what opens the API, made and ended on the database itself."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import UUID

import typer

from gnomon.access.principal import Role
from gnomon.cli.admin import allowing
from gnomon.cli.shared import database, output, values
from gnomon.cli.shared.options import AsJson, settings_of
from gnomon.cli.shared.output import moment
from gnomon.cli.shared.secret_files import NewSecretFile, Out
from gnomon.model.allow_list import listed
from gnomon.model.task import DEFAULT_TENANT
from gnomon.model.tenant import is_tenant_id
from gnomon.settings import Settings

if TYPE_CHECKING:
    from gnomon.access.api_key import ApiKey
    from gnomon.store.postgres.identity.api_keys import PostgresKeys

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

PAGE = 500
_T = TypeVar("_T")


def _tenant(text: str) -> str:
    if not is_tenant_id(text):
        raise typer.BadParameter(f"{text!r} is no tenant; `gnomon tenants list` shows them")
    return text


TenantOption = Annotated[
    str, typer.Option("--tenant", metavar="TENANT", callback=_tenant, help="Whose it is.")
]
KeyId = Annotated[str, typer.Argument(metavar="ID", help="The key's id, as `list` shows it.")]
Duration = Annotated[str | None, typer.Option(metavar="DURATION", help="Like 90d or 12h.")]


@app.callback()
def keys() -> None:
    """Make, list, rotate and revoke API keys. Works on the database, as `gnomon migrate` does."""


@app.command()
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Option(metavar="NAME", help="Who will use it.")],
    roles: Annotated[
        list[Role], typer.Option("--role", help="What it may do; may be repeated. admin: all.")
    ],
    tenant: TenantOption = DEFAULT_TENANT,
    task_types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="It may submit only these. All, if left out."),
    ] = None,
    functions: Annotated[
        list[str] | None,
        typer.Option(
            "--function",
            metavar="NAME",
            help="It may call only these, as billing.*, or none. All, if left out.",
        ),
    ] = None,
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="HOST",
            help="It may call only these, as *.example.com, or none. All, if left out.",
        ),
    ] = None,
    expires: Duration = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Make an API key. It is shown once, and kept nowhere: the database has only its hash.

    \b
    gnomon keys create --name first --role admin
    gnomon keys create --tenant acme --name shop --role submit --role read --expires 90d
    gnomon keys create --tenant acme --name mailer --role submit --type mail --out mailer.key
    gnomon keys create --name hooks --role submit --host '*.example.com' --function none
    """
    from gnomon.access import api_key
    from gnomon.clock import SystemClock, new_id, new_secret
    from gnomon.store.ports.keys import NewKey

    if not name.strip() or not name.isprintable() or len(name) > 100:
        raise typer.BadParameter("--name must be 1 to 100 printable characters")
    now = SystemClock().now()
    secret = api_key.key_from(new_secret(api_key.RANDOM_BYTES))
    new = NewKey(
        id=new_id(now),
        tenant_id=tenant,
        name=name.strip(),
        hash=api_key.hash_of(secret),
        hint=api_key.hint_of(secret),
        roles=frozenset(roles),
        task_types=frozenset(task_types) if task_types else None,
        allow=allowing.allow_list(functions, hosts),
        expires_at=None if expires is None else now + timedelta(seconds=values.duration(expires)),
    )
    with NewSecretFile(out) as file:
        made = _with_keys(settings_of(ctx), lambda store: store.create(new))
        _hand_over(made, secret, file, as_json)


@app.command("list")
def list_(
    ctx: typer.Context, tenant: TenantOption = DEFAULT_TENANT, as_json: AsJson = False
) -> None:
    """List the keys of a tenant, newest first, those that have ended among them.

    \b
    gnomon keys list --tenant acme
    """
    found = _with_keys(settings_of(ctx), lambda store: _all(store, tenant))
    if as_json:
        output.document({"keys": [_document(key) for key in found]})
        return
    output.table(
        ["key", "name", "begins", "roles", "held to", "expires", "revoked", "last used"],
        [_row(key) for key in found],
    )


@app.command()
def rotate(
    ctx: typer.Context,
    key_id: KeyId,
    tenant: TenantOption = DEFAULT_TENANT,
    overlap: Annotated[
        str, typer.Option(metavar="DURATION", help="How long the old key still works.")
    ] = "24h",
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Make a key that takes the place of this one, with its name, roles and types.

    \b
    gnomon keys rotate 019a2b3c-0000-7000-8000-000000000000 --tenant acme --overlap 1h
    """
    from gnomon.access import api_key
    from gnomon.clock import SystemClock, new_id, new_secret
    from gnomon.store.ports.keys import Replacement

    secret = api_key.key_from(new_secret(api_key.RANDOM_BYTES))
    replacement = Replacement(
        id=new_id(SystemClock().now()),
        hash=api_key.hash_of(secret),
        hint=api_key.hint_of(secret),
    )
    old, seconds = _id(key_id), values.duration(overlap)
    with NewSecretFile(out) as file:
        made = _with_keys(
            settings_of(ctx), lambda store: store.rotate(tenant, old, replacement, seconds)
        )
        _hand_over(made, secret, file, as_json)


@app.command()
def revoke(
    ctx: typer.Context,
    key_id: KeyId,
    tenant: TenantOption = DEFAULT_TENANT,
    cascade: Annotated[
        bool, typer.Option("--cascade", help="Also the keys made with it, and with those.")
    ] = False,
) -> None:
    """End a key. Within a second it is refused everywhere.

    \b
    gnomon keys revoke 019a2b3c-0000-7000-8000-000000000000 --tenant acme
    gnomon keys revoke 019a2b3c-0000-7000-8000-000000000000 --tenant acme --cascade
    """
    old = _id(key_id)
    ended = _with_keys(settings_of(ctx), lambda store: store.revoke(tenant, old, cascade=cascade))
    for each in ended or [old]:
        output.echo(f"revoked {each}")


def _with_keys(settings: Settings, use: Callable[["PostgresKeys"], Awaitable[_T]]) -> _T:
    from gnomon.store.postgres.identity.api_keys import PostgresKeys

    return database.with_database(settings, lambda opened: use(PostgresKeys(opened)))


async def _all(store: "PostgresKeys", tenant: str) -> "list[ApiKey]":
    page = await store.list(tenant, None, PAGE)
    found = page.keys
    while page.next_cursor is not None:
        page = await store.list(tenant, page.next_cursor, PAGE)
        found += page.keys
    return found


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no id; `gnomon keys list` shows them") from None


def _hand_over(key: "ApiKey", secret: str, file: NewSecretFile, as_json: bool) -> None:
    where = file.write(secret)
    if as_json:
        output.document(_document(key) | ({"file": where} if where else {"key": secret}))
        return
    if where is None:
        output.echo(secret)
    told = f"is in {where}, and nowhere else" if where else "is not shown again"
    output.note(f"the key {key.name!r} of {key.tenant_id} ({key.id}) {told}")


def _document(key: "ApiKey") -> dict[str, Any]:
    return {
        "key_id": key.id,
        "tenant_id": key.tenant_id,
        "name": key.name,
        "hint": key.hint,
        "roles": sorted(key.roles),
        "task_types": None if key.task_types is None else sorted(key.task_types),
        "functions": key.allow.functions,
        "hosts": key.allow.hosts,
        "created_at": key.created_at,
        "created_by": key.created_by,
        "made_by": key.made_by,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
    }


def _held_to(key: "ApiKey") -> str:
    types = None if key.task_types is None else sorted(key.task_types)
    lists = {"types": types, "functions": key.allow.functions, "hosts": key.allow.hosts}
    held = (f"{name}: {listed(each)}" for name, each in lists.items() if each is not None)
    return "; ".join(held) or "nothing"


def _row(key: "ApiKey") -> tuple[str, ...]:
    times = (key.expires_at, key.revoked_at, key.last_used_at)
    return (
        str(key.id),
        key.name,
        key.hint,
        " ".join(sorted(key.roles)),
        _held_to(key),
        *(moment(values.rfc3339(at)) if at else "" for at in times),
    )

"""`gnomon keys`: API keys of a tenant, and of operators."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon.access.principal import Role
from gnomon.cli.admin.allow_options import allow_lists
from gnomon.cli.admin.first_keys import create_on_database, names_api, works_on_database
from gnomon.cli.shared import output, remote, values
from gnomon.cli.shared.options import ApiUrl, AsJson, settings_of
from gnomon.cli.shared.output import second
from gnomon.cli.shared.secret_files import NewSecretFile, Out
from gnomon.cli.shared.short_ids import id_among
from gnomon.cli.shared.tables import Column, Fit
from gnomon.model.fleet.tenant import is_tenant_id
from gnomon.model.targets.allow_list import listed

if TYPE_CHECKING:
    from gnomon.client.client import DocumentClient

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_COLUMNS = (
    Column("key", Fit.ID),
    Column("name"),
    Column("begins", Fit.WHOLE, rank=4),
    Column("roles"),
    Column("limited to", rank=3),
    Column("expires", Fit.WHOLE, rank=2),
    Column("revoked", Fit.WHOLE, rank=1),
    Column("last used", Fit.WHOLE, rank=5),
)


def _tenant(text: str | None) -> str | None:
    if text is not None and not is_tenant_id(text):
        raise typer.BadParameter(f"{text!r} is no tenant; `gnomon tenants list` shows them")
    return text


KeyId = Annotated[str, typer.Argument(metavar="ID", help="The key's id, as `list` shows it.")]
Duration = Annotated[str | None, typer.Option(metavar="DURATION", help="Like 90d or 12h.")]
OfOperators = Annotated[
    bool, typer.Option("--operator", help="Of operators, who manage tenants and are of none.")
]
Name = Annotated[str, typer.Option(metavar="NAME", help="Who will use it.")]
Roles = Annotated[
    list[Role] | None,
    typer.Option("--role", help="What it may do; may be repeated. admin: all of a tenant."),
]
OfTenant = Annotated[
    str | None,
    typer.Option(
        "--tenant", metavar="TENANT", callback=_tenant, help="Whose it is; on the database."
    ),
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type", metavar="TYPE", help="It may submit or run only these. All, if left out."
    ),
]
Queues = Annotated[
    list[str] | None,
    typer.Option(
        "--queue", metavar="QUEUE", help="It may run only tasks of these. All, if left out."
    ),
]
Functions = Annotated[
    list[str] | None,
    typer.Option(
        "--function",
        metavar="NAME",
        help="It may call only these, as billing.*, or none. All, if left out.",
    ),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--host",
        metavar="HOST",
        help="It may call only these, as *.example.com, or none. All, if left out.",
    ),
]


@app.callback()
def keys() -> None:
    """Create, list, rotate and revoke API keys: those of your key's tenant, or of operators."""


@app.command()
def create(
    ctx: typer.Context,
    name: Name,
    roles: Roles = None,
    operator: OfOperators = False,
    tenant: OfTenant = None,
    task_types: Types = None,
    queues: Queues = None,
    functions: Functions = None,
    hosts: Hosts = None,
    expires: Duration = None,
    out: Out = None,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Create an API key. It is shown once, and stored nowhere: the database has only its hash.

    With a key of your own (--key-file, GNOMON_API_KEY) the API creates it, in the tenant of that
    key. Without one, or with --tenant, it is created on the database (DATABASE_URL, or the embedded
    server): the first key of a tenant or of the operators, or one in the place of a lost key. There
    is no key to ask the API with then, and whoever may write to the database needs none.

    \b
    gnomon keys create --name first --role admin
    gnomon keys create --operator --name ops --out ops.key
    gnomon keys create --tenant acme --name shop --role submit --expires 90d
    gnomon keys create --name mailer --role submit --type mail --out mailer.key
    gnomon keys create --name eu-workers --role work --type mail --out worker.key
    gnomon keys create --name web --role submit --host '*.acme' --function none
    """
    settings = settings_of(ctx)
    limits = values.given(task_types=task_types, queues=queues) | allow_lists(functions, hosts)
    _check_owner(operator, tenant, roles, limits)
    if tenant is not None and names_api(ctx):
        raise typer.BadParameter("--tenant is for the database, and --api for the tenant of a key")
    key = {"name": name.strip(), **limits} | values.given(
        roles=roles and sorted({*roles}), expires_at=_end(expires)
    )
    with NewSecretFile(out) as file:
        if tenant is not None or works_on_database(ctx, settings):
            made = create_on_database(settings, key, tenant, operator=operator)
        else:
            address = remote.api_url(settings, api)
            made = remote.call(address, lambda client: _created(client, key, operator))
        _hand_over(made, file, as_json)


@app.command("list")
def list_(
    ctx: typer.Context, operator: OfOperators = False, as_json: AsJson = False, api: ApiUrl = None
) -> None:
    """List the keys that may do no more than yours, newest first, those that have ended among them.

    \b
    gnomon keys list
    gnomon keys list --operator
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(address, lambda client: _all(client, operator), _table, as_json=as_json)


@app.command()
def rotate(
    ctx: typer.Context,
    key_id: KeyId,
    operator: OfOperators = False,
    overlap: Annotated[
        str, typer.Option(metavar="DURATION", help="How long the old key still works.")
    ] = "24h",
    out: Out = None,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Create a key that takes the place of this one, with its name, roles and types.

    \b
    gnomon keys rotate 019a2b3c-0000-7000-8000-000000000000 --overlap 1h
    """
    seconds = values.duration(overlap)
    address = remote.api_url(settings_of(ctx), api)
    with NewSecretFile(out) as file:
        made = remote.call(address, lambda client: _rotated(client, key_id, seconds, operator))
        _hand_over(made, file, as_json)


@app.command()
def revoke(
    ctx: typer.Context,
    key_id: KeyId,
    operator: OfOperators = False,
    cascade: Annotated[
        bool, typer.Option("--cascade", help="Also the keys made with it, and with those.")
    ] = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Revoke a key. Within a second it is refused everywhere.

    \b
    gnomon keys revoke 019a2b3c-0000-7000-8000-000000000000
    gnomon keys revoke 019a2b3c-0000-7000-8000-000000000000 --cascade
    """
    address = remote.api_url(settings_of(ctx), api)
    ended = remote.call(address, lambda client: _revoked(client, key_id, operator, cascade=cascade))
    if as_json:
        output.document({"revoked": ended})
        return
    for each in ended:
        output.echo(f"revoked {each}")


def _check_owner(
    operator: bool, tenant: str | None, roles: list[Role] | None, limits: dict[str, Any]
) -> None:
    if operator and (tenant is not None or roles or limits):
        raise typer.BadParameter("--operator is of no tenant, and needs no role and no limits")
    if not operator and not roles:
        raise typer.BadParameter("give --role submit, read, operate, work or admin, or --operator")
    if Role.OPERATOR in (roles or ()):
        raise typer.BadParameter("--role operator: give --operator instead")


def _end(expires: str | None) -> datetime | None:
    from gnomon.clock import SystemClock

    if expires is None:
        return None
    return SystemClock().now() + timedelta(seconds=values.duration(expires))


async def _created(client: "DocumentClient", key: dict[str, Any], operator: bool) -> dict[str, Any]:
    create = client.create_operator_key if operator else client.create_key
    made: dict[str, Any] = await create(key)
    return made


async def _rotated(
    client: "DocumentClient", key_id: str, overlap_seconds: float, operator: bool
) -> dict[str, Any]:
    rotate = client.rotate_operator_key if operator else client.rotate_key
    old = await _key_id(client, key_id, operator)
    made: dict[str, Any] = await rotate(old, overlap_seconds=overlap_seconds)
    return made


async def _all(client: "DocumentClient", operator: bool) -> dict[str, Any]:
    listed = client.list_operator_keys() if operator else client.list_keys()
    return {"keys": [key async for key in listed]}


async def _revoked(
    client: "DocumentClient", key_id: str, operator: bool, *, cascade: bool
) -> list[str]:
    """Revoke it; gives the keys that this revokes."""
    key_id = await _key_id(client, key_id, operator)
    # Listed before: the key that this is asked with may be one of them.
    found = (await _all(client, operator))["keys"] if cascade else []
    revoke = client.revoke_operator_key if operator else client.revoke_key
    await revoke(key_id, cascade=cascade)
    ended = {key_id}
    while more := {k["key_id"] for k in found if k["made_by"] in ended} - ended:
        ended |= more
    now = [k["key_id"] for k in found if k["key_id"] in ended and k["revoked_at"] is None]
    return now or [key_id]


async def _key_id(client: "DocumentClient", given: str, operator: bool) -> str:
    listed = client.list_operator_keys() if operator else client.list_keys()
    return await id_among(given, "key", listed, "key_id")


def _hand_over(made: dict[str, Any], file: NewSecretFile, as_json: bool) -> None:
    secret = made.pop("key")
    where = file.write(secret)
    if as_json:
        output.document(made | ({"file": where} if where else {"key": secret}))
        return
    if where is None:
        output.echo(secret)
    told = f"is in {where}, and nowhere else" if where else "is not shown again"
    owner = made["tenant_id"] or "the operators"
    output.note(f"the key {made['name']!r} of {owner} ({made['key_id']}) {told}")


def _table(answer: dict[str, Any]) -> None:
    output.table(
        _COLUMNS,
        [_row(key) for key in answer["keys"]],
    )


def _row(key: dict[str, Any]) -> tuple[str, ...]:
    lists = {
        "types": key["task_types"],
        "queues": key["queues"],
        "functions": key["functions"],
        "hosts": key["hosts"],
    }
    limits = (f"{name}: {listed(each)}" for name, each in lists.items() if each is not None)
    return (
        key["key_id"],
        key["name"],
        key["hint"],
        " ".join(key["roles"]),
        "; ".join(limits),
        *(second(key[at]) for at in ("expires_at", "revoked_at", "last_used_at")),
    )

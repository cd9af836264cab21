"""`gnomon tenants`: who shares this system, and how much of it is theirs."""

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from gnomon.cli.admin import allowing
from gnomon.cli.shared import database, output, values
from gnomon.cli.shared.options import AsJson, Yes, settings_of
from gnomon.cli.shared.output import moment
from gnomon.model.allow_list import listed
from gnomon.model.tenant import (
    BUILT_IN_PLANS,
    MOST_NETWORKS,
    QUOTA_NAMES,
    STANDARD,
    Quotas,
    Tenant,
    is_network,
    is_tenant_id,
    quotas_of,
)
from gnomon.settings import Settings

if TYPE_CHECKING:
    from gnomon.store.postgres.identity.tenants import PostgresTenants, TenantChange

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_T = TypeVar("_T")

TenantId = Annotated[str, typer.Argument(metavar="TENANT", help="Its name.")]
Plan = Annotated[str | None, typer.Option(metavar="NAME", help="Bundles its quotas.")]
Weight = Annotated[
    float | None, typer.Option(metavar="N", help="Its share of busy slots beside the others'.")
]
QuotaOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--quota", metavar="NAME=VALUE", help="Differs from the plan; none lifts it, plan resets."
    ),
]
TargetsAllow = Annotated[
    list[str] | None,
    typer.Option(
        "--targets-allow",
        metavar="CIDR",
        help="A network that is not public and that its webhooks may reach; none for no such.",
    ),
]
Functions = Annotated[
    list[str] | None,
    typer.Option(
        "--function", metavar="NAME", help="It may call only these, as billing.*; none, or all."
    ),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--host", metavar="HOST", help="It may call only these, as *.example.com; none, or all."
    ),
]


@app.callback()
def tenants() -> None:
    """Make, change and remove tenants. Works on the database, as `gnomon migrate` does."""


@app.command()
def create(
    ctx: typer.Context,
    tenant_id: TenantId,
    plan: Plan = None,
    weight: Weight = None,
    quotas: QuotaOptions = None,
    targets_allow: TargetsAllow = None,
    functions: Functions = None,
    hosts: Hosts = None,
    as_json: AsJson = False,
) -> None:
    """Make a tenant.

    \b
    gnomon tenants create acme
    gnomon tenants create acme --plan pro --weight 3 --quota scheduled_tasks=500
    """
    settings = settings_of(ctx)
    if not is_tenant_id(tenant_id):
        raise typer.BadParameter(
            f"{tenant_id!r} must be 1 to 63 of a-z, 0-9, _ and -, and begin with a letter or digit"
        )
    change = _change(settings, plan, weight, quotas, targets_allow, functions, hosts)
    tenant = Tenant(
        id=tenant_id,
        plan=change.plan or STANDARD,
        weight=change.weight or 1.0,
        quotas=change.quotas,
        targets_allow=change.targets_allow or (),
        allow=change.allow,
    )
    made = _with_tenants(settings, lambda store: store.create(tenant))
    _show(settings, made, as_json=as_json)


@app.command("list")
def list_(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List all tenants.

    \b
    gnomon tenants list --json
    """
    settings = settings_of(ctx)
    found = _with_tenants(settings, lambda store: store.list())
    if as_json:
        output.document({"tenants": [_document(settings, tenant) for tenant in found]})
        return
    rows = [(t.id, t.plan, f"{t.weight:g}", _differences(t), _made(t)) for t in found]
    output.table(["tenant", "plan", "weight", "quotas of its own", "created"], rows)


@app.command()
def show(ctx: typer.Context, tenant_id: TenantId, as_json: AsJson = False) -> None:
    """Show a tenant, and the quotas in force.

    \b
    gnomon tenants show acme
    """
    settings = settings_of(ctx)
    found = _with_tenants(settings, lambda store: store.get(tenant_id))
    _show(settings, found, as_json=as_json)


@app.command("set")
def set_(
    ctx: typer.Context,
    tenant_id: TenantId,
    plan: Plan = None,
    weight: Weight = None,
    quotas: QuotaOptions = None,
    targets_allow: TargetsAllow = None,
    functions: Functions = None,
    hosts: Hosts = None,
    as_json: AsJson = False,
) -> None:
    """Change a tenant. Every process follows within a second.

    \b
    gnomon tenants set acme --plan pro
    gnomon tenants set acme --quota executions_per_minute=none --quota payload_bytes=plan
    gnomon tenants set acme --targets-allow 10.1.0.0/16 --targets-allow 10.2.0.7/32
    gnomon tenants set acme --function 'billing.*' --host api.example.com --host '*.acme.example'
    """
    settings = settings_of(ctx)
    change = _change(settings, plan, weight, quotas, targets_allow, functions, hosts)
    changed = _with_tenants(settings, lambda store: store.change(tenant_id, change))
    _show(settings, changed, as_json=as_json)


@app.command("rm")
def remove(ctx: typer.Context, tenant_id: TenantId, yes: Yes = False) -> None:
    """Remove a tenant and its keys, once it has no tasks and no cron jobs.

    \b
    gnomon tenants rm acme --yes
    """
    settings = settings_of(ctx)
    if not yes:
        output.confirm(f"Remove the tenant {tenant_id} and its keys?")
    _with_tenants(settings, lambda store: store.remove(tenant_id))
    output.echo(f"removed {tenant_id}")


def _with_tenants(settings: Settings, use: Callable[["PostgresTenants"], Awaitable[_T]]) -> _T:
    from gnomon.store.postgres.identity.tenants import PostgresTenants

    return database.with_database(settings, lambda opened: use(PostgresTenants(opened)))


def _change(
    settings: Settings,
    plan: str | None,
    weight: float | None,
    quotas: list[str] | None,
    targets_allow: list[str] | None,
    functions: list[str] | None,
    hosts: list[str] | None,
) -> "TenantChange":
    from gnomon.store.postgres.identity.tenants import TenantChange

    known = {**BUILT_IN_PLANS, **_plans(settings)}
    if plan is not None and plan not in known:
        raise typer.BadParameter(f"--plan must be one of {', '.join(sorted(known))}; got {plan!r}")
    if weight is not None and not 0.001 <= weight <= 1e6:
        raise typer.BadParameter("--weight must be between 0.001 and 1000000")
    given = dict(_quota(text) for text in quotas or ())
    return TenantChange(
        plan=plan,
        weight=weight,
        quotas={name: value for name, value in given.items() if value != _PLAN},
        as_planned=frozenset(name for name, value in given.items() if value == _PLAN),
        targets_allow=None if targets_allow is None else _networks(targets_allow),
        allow=allowing.allow_list(functions, hosts),
        lifted=allowing.lifted(functions, hosts),
    )


def _networks(given: list[str]) -> tuple[str, ...]:
    networks = tuple(dict.fromkeys(text for text in given if text != "none"))
    for text in networks:
        if not is_network(text):
            raise typer.BadParameter(
                f"--targets-allow must be a network such as 10.1.0.0/16, or none; got {text!r}"
            )
    if len(networks) > MOST_NETWORKS:
        raise typer.BadParameter(f"--targets-allow may be given {MOST_NETWORKS} times at most")
    return networks


_PLAN = -1.0


def _quota(text: str) -> tuple[str, float | None]:
    name, _, value = text.partition("=")
    if name not in QUOTA_NAMES:
        raise typer.BadParameter(f"--quota must name one of {', '.join(QUOTA_NAMES)}; got {text!r}")
    if value in ("none", "plan"):
        return name, None if value == "none" else _PLAN
    whole = name != "cron_interval_seconds"
    if not re.fullmatch(r"\d{1,15}" if whole else r"\d{1,9}(\.\d+)?", value):
        kind = "a whole number" if whole else "a number"
        raise typer.BadParameter(f"--quota {name} must be {kind}, none, or plan; got {value!r}")
    return name, int(value) if whole else float(value)


def _plans(settings: Settings) -> dict[str, Quotas]:
    from gnomon.store.tenant_cache import plans_of

    return plans_of(settings.sharing)


def _document(settings: Settings, tenant: Tenant) -> dict[str, Any]:
    return {
        "tenant_id": tenant.id,
        "plan": tenant.plan,
        "weight": tenant.weight,
        "quotas": quotas_of(tenant, _plans(settings)),
        "targets_allow": tenant.targets_allow,
        "functions": tenant.allow.functions,
        "hosts": tenant.allow.hosts,
        "created_at": tenant.created_at,
    }


def _show(settings: Settings, tenant: Tenant, *, as_json: bool) -> None:
    if as_json:
        output.document(_document(settings, tenant))
        return
    in_force = quotas_of(tenant, _plans(settings))
    output.fields(
        [
            ("tenant", tenant.id),
            ("plan", tenant.plan),
            ("weight", f"{tenant.weight:g}"),
            ("created", _made(tenant)),
            *((name.replace("_", " "), _shown(getattr(in_force, name))) for name in QUOTA_NAMES),
            ("targets allowed", " ".join(tenant.targets_allow) or "public ones"),
            ("functions", listed(tenant.allow.functions)),
            ("hosts", listed(tenant.allow.hosts)),
        ]
    )


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _differences(tenant: Tenant) -> str:
    return " ".join(f"{name}={_shown(value)}" for name, value in tenant.quotas.items())


def _made(tenant: Tenant) -> str:
    return moment(values.rfc3339(tenant.created_at)) if tenant.created_at else ""

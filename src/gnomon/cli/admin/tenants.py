"""`gnomon tenants`: the tenants that share this installation, and how much of it is theirs."""

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon.cli.admin.allow_options import allow_lists
from gnomon.cli.shared import output, remote, values
from gnomon.cli.shared.options import ApiUrl, AsJson, Yes, settings_of
from gnomon.cli.shared.output import moment
from gnomon.model.fleet.tenant import MOST_NETWORKS, QUOTA_NAMES, is_network, is_tenant_id
from gnomon.model.targets.allow_list import listed

if TYPE_CHECKING:
    from gnomon.client.client import DocumentClient

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


def _tenant_id(text: str) -> str:
    if not is_tenant_id(text):
        raise typer.BadParameter(
            f"{text!r} must be 1 to 63 of a-z, 0-9, _ and -, and begin with a letter or digit"
        )
    return text


TenantId = Annotated[str, typer.Argument(metavar="TENANT", help="Its name.", callback=_tenant_id)]
Plan = Annotated[str | None, typer.Option(metavar="NAME", help="Bundles its quotas.")]
Weight = Annotated[
    float | None,
    typer.Option(
        metavar="N", min=0.001, max=1e6, help="Its share of busy slots beside the others'."
    ),
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
    """Create, change and remove tenants. Needs an operator's key where authentication is on.

    \b
    gnomon keys create --operator --name ops --out ops.key    on the database
    gnomon --key-file ops.key tenants list
    """


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
    api: ApiUrl = None,
) -> None:
    """Create a tenant. Its first key is made on the database: gnomon keys create --tenant.

    \b
    gnomon tenants create acme
    gnomon tenants create acme --plan pro --weight 3 --quota scheduled_tasks=500
    """
    given = _fields(plan, weight, quotas, targets_allow) | allow_lists(functions, hosts)
    tenant = {"tenant_id": tenant_id, **given}
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(address, lambda client: client.create_tenant(tenant), _show, as_json=as_json)


@app.command("list")
def list_(ctx: typer.Context, as_json: AsJson = False, api: ApiUrl = None) -> None:
    """List all tenants.

    \b
    gnomon tenants list --json
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(address, _all, _table, as_json=as_json)


@app.command()
def show(
    ctx: typer.Context, tenant_id: TenantId, as_json: AsJson = False, api: ApiUrl = None
) -> None:
    """Show a tenant, and the quotas in force.

    \b
    gnomon tenants show acme
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(address, lambda client: client.show_tenant(tenant_id), _show, as_json=as_json)


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
    api: ApiUrl = None,
) -> None:
    """Change a tenant. Every process follows within a second.

    \b
    gnomon tenants set acme --plan pro
    gnomon tenants set acme --quota executions_per_minute=none
    gnomon tenants set acme --targets-allow 10.1.0.0/16
    gnomon tenants set acme --function 'billing.*' --host '*.acme.example'
    """
    change = _fields(plan, weight, quotas, targets_allow) | allow_lists(functions, hosts)
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(
        address, lambda client: client.patch_tenant(tenant_id, change), _show, as_json=as_json
    )


@app.command("rm")
def remove(
    ctx: typer.Context,
    tenant_id: TenantId,
    yes: Yes = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Remove a tenant and its keys, once it has no tasks and no cron jobs.

    \b
    gnomon tenants rm acme --yes
    """
    address = remote.api_url(settings_of(ctx), api)
    if not yes:
        output.confirm(f"Remove the tenant {tenant_id} and its keys?")
    remote.call(address, lambda client: client.delete_tenant(tenant_id))
    output.done(f"removed {tenant_id}", {"removed": tenant_id}, as_json=as_json)


@app.command("plans")
def plans_(ctx: typer.Context, as_json: AsJson = False, api: ApiUrl = None) -> None:
    """List the plans, with their quotas.

    \b
    gnomon tenants plans
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(address, lambda client: client.list_plans(), _plans, as_json=as_json)


async def _all(client: "DocumentClient") -> dict[str, Any]:
    return {"tenants": [tenant async for tenant in client.list_tenants()]}


def _fields(
    plan: str | None,
    weight: float | None,
    quotas: list[str] | None,
    targets_allow: list[str] | None,
) -> dict[str, Any]:
    return values.given(
        plan=plan,
        weight=weight,
        quotas=dict(_quota(text) for text in quotas) if quotas else None,
        targets_allow=None if targets_allow is None else _networks(targets_allow),
    )


def _networks(given: list[str]) -> list[str]:
    networks = list(dict.fromkeys(text for text in given if text != "none"))
    for text in networks:
        if not is_network(text):
            raise typer.BadParameter(
                f"--targets-allow must be a network such as 10.1.0.0/16, or none; got {text!r}"
            )
    if len(networks) > MOST_NETWORKS:
        raise typer.BadParameter(f"--targets-allow may be given {MOST_NETWORKS} times at most")
    return networks


def _quota(text: str) -> tuple[str, float | str | None]:
    name, _, value = text.partition("=")
    if name not in QUOTA_NAMES:
        raise typer.BadParameter(f"--quota must name one of {', '.join(QUOTA_NAMES)}; got {text!r}")
    if value in ("none", "plan"):
        return name, None if value == "none" else value
    whole = name != "cron_interval_seconds"
    if not re.fullmatch(r"\d{1,15}" if whole else r"\d{1,9}(\.\d+)?", value):
        kind = "a whole number" if whole else "a number"
        raise typer.BadParameter(f"--quota {name} must be {kind}, none, or plan; got {value!r}")
    return name, int(value) if whole else float(value)


def _table(answer: dict[str, Any]) -> None:
    rows = [
        (t["tenant_id"], t["plan"], f"{t['weight']:g}", _own(t), moment(t["created_at"]))
        for t in answer["tenants"]
    ]
    output.table(["tenant", "plan", "weight", "quotas of its own", "created"], rows)


def _quota_line(quota: float | None, use: float | None) -> str:
    return _shown(quota) if use is None else f"{_shown(quota)} ({_shown(use)} in use)"


def _show(tenant: dict[str, Any]) -> None:
    output.fields(
        [
            ("tenant", tenant["tenant_id"]),
            ("plan", tenant["plan"]),
            ("weight", f"{tenant['weight']:g}"),
            ("created", moment(tenant["created_at"])),
            *(
                (name.replace("_", " "), _quota_line(of, tenant.get("use", {}).get(name)))
                for name, of in tenant["quotas"].items()
            ),
            ("targets allowed", " ".join(tenant["targets_allow"]) or "public ones"),
            ("functions", listed(tenant["functions"])),
            ("hosts", listed(tenant["hosts"])),
        ]
    )


def _plans(answer: dict[str, Any]) -> None:
    names = [name for name in QUOTA_NAMES if any(name in p["quotas"] for p in answer["plans"])]
    output.table(
        ["plan", *(name.replace("_", " ") for name in names)],
        [(p["name"], *(_shown(p["quotas"][name]) for name in names)) for p in answer["plans"]],
    )


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _own(tenant: dict[str, Any]) -> str:
    return " ".join(f"{name}={_shown(value)}" for name, value in tenant["own_quotas"].items())

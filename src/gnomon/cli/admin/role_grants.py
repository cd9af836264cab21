"""`gnomon tenants grant-role`, `revoke-role`, `roles`: database roles that submit for a tenant."""

from typing import TYPE_CHECKING, Annotated

import typer

from gnomon.cli.admin.allow_options import allow_lists
from gnomon.cli.admin.tenants import Functions, Hosts, TenantId
from gnomon.cli.shared import database, output
from gnomon.cli.shared.options import AsJson, settings_of
from gnomon.cli.shared.output import CommandFailed, moment
from gnomon.model.errors import RoleNotFound, TenantNotFound
from gnomon.model.targets.allow_list import listed

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Database
    from gnomon.store.postgres.identity.role_grants import RoleGrant

Role = Annotated[str, typer.Argument(metavar="ROLE", help="The login of an application.")]
Types = Annotated[
    list[str] | None, typer.Option("--type", metavar="TYPE", help="It may submit only these.")
]


def grant_role(
    ctx: typer.Context,
    tenant_id: TenantId,
    role: Role,
    types: Types = None,
    functions: Functions = None,
    hosts: Hosts = None,
    as_json: AsJson = False,
) -> None:
    """Let a database role submit tasks for a tenant, in its own transactions, and complete them in
    them. Works on the database. Granted again, it replaces what was granted.

    \b
    gnomon tenants grant-role acme shop
    gnomon tenants grant-role acme shop --type send_email
    """
    lists = allow_lists(functions, hosts)

    async def grant(opened: "Database") -> None:
        from gnomon.store.postgres.identity.role_grants import PostgresRoleGrants

        try:
            await PostgresRoleGrants(opened).grant(
                role, tenant_id, types, lists.get("functions"), lists.get("hosts")
            )
        except (RoleNotFound, TenantNotFound) as error:
            raise CommandFailed(str(error)) from error

    database.with_database(settings_of(ctx), grant)
    output.done(
        f"the role {role} submits for {tenant_id}",
        {"role": role, "tenant_id": tenant_id},
        as_json=as_json,
    )


def revoke_role(ctx: typer.Context, role: Role, as_json: AsJson = False) -> None:
    """Let a database role no longer submit tasks. What it has submitted stays.

    \b
    gnomon tenants revoke-role shop
    """

    async def revoke(opened: "Database") -> bool:
        from gnomon.store.postgres.identity.role_grants import PostgresRoleGrants

        return await PostgresRoleGrants(opened).revoke(role)

    if not database.with_database(settings_of(ctx), revoke):
        raise CommandFailed(f"the role {role!r} had no grant")
    output.done(f"the role {role} submits no more", {"revoked": role}, as_json=as_json)


def roles(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List the database roles that submit for tenants.

    \b
    gnomon tenants roles
    """

    async def find(opened: "Database") -> list["RoleGrant"]:
        from gnomon.store.postgres.identity.role_grants import PostgresRoleGrants

        return await PostgresRoleGrants(opened).list()

    found = database.with_database(settings_of(ctx), find)
    if as_json:
        output.document({"roles": [grant._asdict() for grant in found]})
        return
    output.table(
        ["role", "tenant", "types", "functions", "hosts", "granted"],
        [
            (
                each.role,
                each.tenant_id,
                listed(each.task_types),
                listed(each.functions),
                listed(each.hosts),
                moment(f"{each.created_at:%Y-%m-%dT%H:%M:%SZ}"),
            )
            for each in found
        ],
    )

"""`gnomon migrate`: bring the schema up to date, or back."""

from typing import TYPE_CHECKING, Annotated

import typer

from gnomon import loop
from gnomon.cli.shared import database, output
from gnomon.cli.shared.options import AsJson, Yes, settings_of
from gnomon.cli.shared.output import CommandFailed

if TYPE_CHECKING:
    from gnomon.store.postgres.migrate import AppliedMigration

app = typer.Typer(rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def migrate(ctx: typer.Context) -> None:
    """Bring the database's schema up to date (`up`), or back (`down`).

    Works on DATABASE_URL, or on the embedded server, which is started for it if need be.

    \b
    gnomon migrate
    gnomon migrate status
    gnomon migrate down --to 0
    """
    if ctx.invoked_subcommand is None:
        up(ctx)


@app.command()
def up(ctx: typer.Context) -> None:
    """Take all migrations that were not taken, and make the partitions of the days ahead.

    \b
    DATABASE_URL=postgresql://localhost/gnomon gnomon migrate up
    """
    with database.running_database(settings_of(ctx)) as dsn:
        taken = loop.run(database.prepare(dsn))
    for name in taken:
        output.echo(f"took {name}")
    if not taken:
        output.echo("the schema is up to date")


@app.command()
def down(
    ctx: typer.Context,
    to: Annotated[int, typer.Option(min=0, help="Undo all above this one; 0 undoes all.")],
    yes: Yes = False,
) -> None:
    """Undo migrations, newest first. What their tables held is lost.

    \b
    gnomon migrate down --to 1
    gnomon migrate down --to 0 --yes
    """
    settings = settings_of(ctx)
    if not yes:
        output.confirm(f"Undo all migrations above {to}, and lose what they hold?")
    with database.running_database(settings) as dsn:
        undone = loop.run(_down(dsn, to))
    for name in undone:
        output.echo(f"undid {name}")
    if not undone:
        output.echo("nothing to undo")


@app.command()
def accept(
    ctx: typer.Context,
    version: Annotated[int, typer.Argument(min=1, help="The number of the migration.")],
    yes: Yes = False,
) -> None:
    """Take a migration's present text for the one that the database has taken.

    For a migration that was edited after it was taken, once you have checked that the schema is
    what its file says. Nothing else is changed.

    \b
    gnomon migrate accept 6
    """
    settings = settings_of(ctx)
    if not yes:
        output.confirm(f"Is the schema what migration {version} says?")
    with database.running_database(settings) as dsn:
        name = loop.run(_accept(dsn, version))
    output.echo(f"accepted {name}")


@app.command()
def status(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show which migrations the database has taken.

    \b
    gnomon migrate status --json
    """
    with database.running_database(settings_of(ctx)) as dsn:
        steps = loop.run(_status(dsn))
    if as_json:
        output.document({"migrations": [_document(step) for step in steps]})
    else:
        rows = [(f"{s.version:04d}", s.name, _applied(s), _moment(s)) for s in steps]
        output.table(["version", "name", "applied", "at"], rows)


def _document(step: "AppliedMigration") -> dict[str, object]:
    return {
        "version": step.version,
        "name": step.name,
        "applied": step.applied,
        "applied_at": step.applied_at,
        "edited": step.edited,
    }


def _moment(step: "AppliedMigration") -> str:
    return "" if step.applied_at is None else f"{step.applied_at:%Y-%m-%d %H:%M:%SZ}"


def _applied(step: "AppliedMigration") -> str:
    if step.edited:
        return "edited since"
    return "yes" if step.applied else "no"


async def _down(dsn: str, to: int) -> list[str]:
    import asyncpg

    from gnomon.store.postgres import migrate as migrations

    async with database.connection(dsn) as connection:
        try:
            undone = await migrations.down(connection, to)
        except migrations.MigrationError as error:
            raise CommandFailed(str(error)) from error
        except asyncpg.PostgresError as error:
            raise CommandFailed(f"a migration could not be undone: {error}") from error
    return [str(step) for step in undone]


async def _accept(dsn: str, version: int) -> str:
    from gnomon.store.postgres import migrate as migrations

    async with database.connection(dsn) as connection:
        try:
            return str(await migrations.accept(connection, version))
        except migrations.MigrationError as error:
            raise CommandFailed(str(error)) from error


async def _status(dsn: str) -> list["AppliedMigration"]:
    from gnomon.store.postgres import migrate as migrations

    async with database.connection(dsn) as connection:
        return await migrations.status(connection)

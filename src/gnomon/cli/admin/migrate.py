"""`gnomon migrate`: bring the schema up to date, or back."""

from typing import TYPE_CHECKING, Annotated

import typer

from gnomon import loop
from gnomon.cli.shared import database, output
from gnomon.cli.shared.options import AsJson, Yes, settings_of
from gnomon.cli.shared.output import CommandFailed

if TYPE_CHECKING:
    from gnomon.store.postgres.migrate import AppliedMigration, MigrationStep, StepProgress

app = typer.Typer(rich_markup_mode=None)

_HOW = {"": "in one transaction", "concurrently": "index, concurrently", "batches": "in batches"}


@app.callback(invoke_without_command=True)
def migrate(ctx: typer.Context) -> None:
    """Bring the database's schema up to date (`up`), or back (`down`).

    Works on DATABASE_URL, or on the embedded server, which is started if need be. Nodes and API of
    the version before may go on running. If it is interrupted, run it again: it continues.

    \b
    gnomon migrate status
    gnomon migrate
    gnomon migrate down --to 18
    """
    if ctx.invoked_subcommand is None:
        up(ctx)


@app.command()
def up(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Apply all migrations that are not applied, and make the partitions of the days ahead.

    `gnomon migrate status` shows beforehand what this will do.

    \b
    DATABASE_URL=postgresql://localhost/gnomon gnomon migrate up
    """
    with database.running_database(settings_of(ctx)) as dsn:
        applied = loop.run(database.prepare(dsn, MigrationProgress().show))
    told = "\n".join(f"applied {name}" for name in applied) or "the schema is up to date"
    output.done(told, {"applied": applied}, as_json=as_json)


@app.command()
def down(
    ctx: typer.Context,
    to: Annotated[
        int, typer.Option(min=0, help="The migration to go back to; 0 undoes all of them.")
    ],
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Undo migrations, newest first. The data in their tables and columns is lost.

    \b
    gnomon migrate down --to 18
    gnomon migrate down --to 0 --yes
    """
    settings = settings_of(ctx)
    if not yes:
        output.confirm(f"Undo all migrations above {to}, and lose their data?")
    with database.running_database(settings) as dsn:
        undone = loop.run(_down(dsn, to))
    told = "\n".join(f"undid {name}" for name in undone) or "nothing to undo"
    output.done(told, {"undone": undone}, as_json=as_json)


@app.command()
def accept(
    ctx: typer.Context,
    version: Annotated[int, typer.Argument(min=1, help="The number of the migration.")],
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Record the present text of a migration as the one that the database has applied.

    For a migration that was edited after it was applied, once you have checked that the schema is
    what its file says. Nothing else is changed.

    \b
    gnomon migrate accept 18
    """
    settings = settings_of(ctx)
    if not yes:
        output.confirm(f"Is the schema what migration {version} says?")
    with database.running_database(settings) as dsn:
        name = loop.run(_accept(dsn, version))
    output.done(f"accepted {name}", {"accepted": name}, as_json=as_json)


@app.command()
def status(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show which migrations the database has applied, and the steps of those to come.

    \b
    gnomon migrate status --json
    """
    with database.running_database(settings_of(ctx)) as dsn:
        migrations, refused = loop.run(_status(dsn))
    if as_json:
        output.document({"migrations": [_document(m) for m in migrations], "refused": refused})
        return
    rows = [(f"{m.version:04d}", m.name, _applied(m), _moment(m)) for m in migrations]
    output.table(["version", "name", "applied", "at"], rows)
    for migration in migrations:
        if not migration.applied and len(migration.steps) > 1:
            for step in migration.steps:
                done = step.number <= migration.finished_steps
                output.echo(f"{migration.version:04d} {_step(step)}{': done' if done else ''}")
    if refused is not None:
        output.trouble(refused)


class MigrationProgress:
    """Shows how far the steps are, on stderr, without a line for every batch."""

    _EVERY_ROWS = 100_000

    def __init__(self) -> None:
        self._shown_rows = 0

    def show(self, progress: "StepProgress") -> None:
        where = f"{progress.migration.version:04d} {_step(progress.step)}"
        if progress.waits:
            output.note(f"{where}: waiting for a lock, retrying")
        elif progress.finished:
            rows = f", {progress.rows} rows" if progress.rows else ""
            if len(progress.migration.steps) > 1:
                output.note(f"{where}: done{rows}")
            self._shown_rows = 0
        elif progress.rows >= self._shown_rows + self._EVERY_ROWS:
            output.note(f"{where}: {progress.rows} rows")
            self._shown_rows = progress.rows


def _step(step: "MigrationStep") -> str:
    return f"step {step.number} {step.name} ({_HOW[step.kind.value]})"


def _document(migration: "AppliedMigration") -> dict[str, object]:
    return {
        "version": migration.version,
        "name": migration.name,
        "applied": migration.applied,
        "applied_at": migration.applied_at,
        "edited": migration.edited,
        "steps": [_HOW[step.kind.value] for step in migration.steps],
        "finished_steps": len(migration.steps) if migration.applied else migration.finished_steps,
    }


def _moment(migration: "AppliedMigration") -> str:
    return "" if migration.applied_at is None else f"{migration.applied_at:%Y-%m-%d %H:%M:%SZ}"


def _applied(migration: "AppliedMigration") -> str:
    if migration.edited:
        return "edited since"
    if migration.finished_steps:
        return f"{migration.finished_steps} of {len(migration.steps)} steps"
    return "yes" if migration.applied else "no"


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
    return [str(migration) for migration in undone]


async def _accept(dsn: str, version: int) -> str:
    from gnomon.store.postgres import migrate as migrations

    async with database.connection(dsn) as connection:
        try:
            return await migrations.accept(connection, version)
        except migrations.MigrationError as error:
            raise CommandFailed(str(error)) from error


async def _status(dsn: str) -> tuple[list["AppliedMigration"], str | None]:
    from gnomon.store.postgres import migrate as migrations

    async with database.connection(dsn) as connection:
        return await migrations.status(connection), await migrations.refusal(connection)

"""`gnomon`: the root of the command line, and the handling of expected errors."""

import sys
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated

import typer

from gnomon import extras
from gnomon.cli.admin import (
    authentication,
    doctor,
    keys,
    limits,
    migrate,
    nodes,
    secrets,
    settings,
    tenants,
    types,
    usage,
)
from gnomon.cli.cron import cron
from gnomon.cli.run import listen, processes, up, worker
from gnomon.cli.shared import output
from gnomon.cli.shared.options import SETTINGS_VARIABLE
from gnomon.cli.tasks import dead, events, submit, tasks
from gnomon.client.errors import ApiProblem, ApiUnreachable, ClientError
from gnomon.model.errors import GnomonError, InvalidTask
from gnomon.settings import SettingsError
from gnomon.version import VERSION

_NO_API = "is `gnomon up` or `gnomon api` running? --api or GNOMON_URL says where it is"
_KEY_HINT = "\n  give a key with --key-file, or in GNOMON_API_KEY or GNOMON_API_KEY_FILE"

app = typer.Typer(
    name="gnomon",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: four times as fast, and the examples stay as written
)

app.command("up")(up.up)
app.command("api")(processes.api)
app.command("scheduler")(processes.scheduler)
app.command("worker")(worker.worker)
app.command("submit")(submit.submit)
app.command("listen")(listen.listen)
app.command("nodes")(nodes.nodes)
app.command("events")(events.events)
app.command("doctor")(doctor.doctor)
app.command("settings")(settings.settings)
app.add_typer(tasks.app, name="tasks")
app.add_typer(dead.app, name="dead")
app.add_typer(cron.app, name="cron")
app.add_typer(migrate.app, name="migrate")
app.add_typer(tenants.app, name="tenants")
app.add_typer(keys.app, name="keys")
app.add_typer(secrets.app, name="secrets")
app.add_typer(types.app, name="types")
app.add_typer(limits.app, name="limits")
app.command("usage")(usage.usage)
app.command("authentication")(authentication.authentication)


def _version(wanted: bool) -> None:
    if wanted:
        output.echo(f"gnomon {VERSION}")
        raise typer.Exit


@app.callback()
def root(
    settings_path: Annotated[
        str | None,
        typer.Option(
            "--settings",
            metavar="FILE",
            envvar=SETTINGS_VARIABLE,
            help="Settings file, instead of ./gnomon.toml.",
        ),
    ] = None,
    key_file: Annotated[
        str | None,
        typer.Option(
            "--key-file",
            metavar="FILE",
            help="File with the API key or token, or - for stdin; else GNOMON_API_KEY.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A distributed task scheduler you run yourself.

    \b
    Begin with:
      gnomon up                                  everything, with a PostgreSQL
      gnomon listen                              a webhook receiver for tests
      gnomon submit http://127.0.0.1:9000/hello  a task for it
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command. Expected errors become a line on stderr and exit code 1."""
    try:
        app(arguments, prog_name="gnomon")
    except ApiUnreachable as error:
        output.trouble(f"{error}; {_NO_API}")
    except ApiProblem as error:
        output.trouble(f"{error}{_KEY_HINT if error.status == HTTPStatus.UNAUTHORIZED else ''}")
    except InvalidTask as error:  # of a command on the database: as the API would say it
        output.trouble(f"Invalid value: {error.pointer}: {error}")
    except (output.CommandFailed, ClientError, GnomonError, SettingsError) as error:
        output.trouble(str(error))
    except ModuleNotFoundError as missing:
        if (told := extras.advice(missing)) is None:
            raise
        output.trouble(told)
    sys.exit(1)

"""`gnomon`: the root of the command line, and the handling of expected errors."""

import sys
from collections.abc import Callable, Sequence
from functools import cache
from http import HTTPStatus
from typing import Annotated, Any

import typer
import typer.main

from gnomon import extras
from gnomon.cli.admin import (
    authentication,
    breakers,
    bundle,
    doctor,
    feeds,
    keys,
    limits,
    migrate,
    nodes,
    role_grants,
    secrets,
    settings,
    tenants,
    top,
    types,
    usage,
)
from gnomon.cli.cron import cron
from gnomon.cli.notify import notify
from gnomon.cli.run import bench, listen, processes, relay, up, worker
from gnomon.cli.shared import output, remote
from gnomon.cli.shared.database import WrongAddress
from gnomon.cli.shared.options import SETTINGS_VARIABLE, Invocation
from gnomon.cli.tasks import bulk, dead, events, levels, submit, tasks
from gnomon.cli.workflows import batches, workflows
from gnomon.cli.workflows import signals as signals
from gnomon.client.errors import ApiProblem, ApiUnreachable, ClientError
from gnomon.model.errors import GnomonError, InvalidTask, StoreUnavailable
from gnomon.settings import SettingsError
from gnomon.version import VERSION

_NO_API = "is `gnomon up` or `gnomon api` running? --api or GNOMON_URL says where it is"
_KEY_HINT = "\n  give a key with --key-file, or in GNOMON_API_KEY or GNOMON_API_KEY_FILE"
# The root of errors about arguments, which Typer does not export under a name of its own.
_WRONGLY_TYPED: Any = typer.BadParameter.__mro__[2]

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
app.command("relay")(relay.relay)
app.command("submit")(submit.submit)
app.command("listen")(listen.listen)
app.command("bench")(bench.bench)
app.command("nodes")(nodes.nodes)
app.command("events")(events.events)
app.command("acknowledge")(events.acknowledge)
app.command("levels")(levels.levels)
app.command("breakers")(breakers.breakers)
app.command("top")(top.top)
app.command("doctor")(doctor.doctor)
app.command("bundle")(bundle.bundle)
app.command("settings")(settings.settings)
app.add_typer(tasks.app, name="tasks")
app.add_typer(dead.app, name="dead")
app.add_typer(bulk.app, name="bulk")
app.add_typer(cron.app, name="cron")
app.add_typer(workflows.app, name="workflows")
app.add_typer(batches.app, name="batches")
app.add_typer(notify.app, name="notify")
app.add_typer(migrate.app, name="migrate")
tenants.app.command("grant-role")(role_grants.grant_role)
tenants.app.command("revoke-role")(role_grants.revoke_role)
tenants.app.command("roles")(role_grants.roles)
app.add_typer(tenants.app, name="tenants")
app.add_typer(keys.app, name="keys")
app.add_typer(secrets.app, name="secrets")
app.add_typer(types.app, name="types")
app.add_typer(limits.app, name="limits")
app.add_typer(feeds.app, name="feeds")
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
    """Run one command. Expected errors become a line on stderr and exit code 1; with `--json` that
    line is JSON, and stdout has JSON or nothing."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    as_json = "--json" in given
    with output.speaking_json(as_json):
        sys.exit(_ended(given, as_json))


@cache  # it takes 35 ms, and tests run hundreds of commands in a process
def _command() -> Callable[..., Any]:
    return typer.main.get_command(app)


def _ended(given: Sequence[str], as_json: bool) -> int:
    """The exit code of a command."""
    invocation = Invocation()
    try:
        run = _command()
        code = run(given, prog_name="gnomon", obj=invocation, standalone_mode=not as_json)
        return code if isinstance(code, int) else 0
    except ApiUnreachable as error:
        output.trouble(f"{error}; {_NO_API}")
    except ApiProblem as error:
        hint = _KEY_HINT if error.status == HTTPStatus.UNAUTHORIZED else ""
        output.trouble(f"{error}{hint}", **remote.members_of(error))
    except InvalidTask as error:  # of a command on the database: as the API would say it
        output.trouble(f"Invalid value: {error.pointer}: {error}")
    except (StoreUnavailable, WrongAddress) as error:
        output.trouble(f"{error}{invocation.database_hint()}")
    except (output.CommandFailed, ClientError, GnomonError, SettingsError) as error:
        output.trouble(str(error))
    except ModuleNotFoundError as missing:
        if (told := extras.advice(missing)) is None:
            raise
        output.trouble(told)
    except _WRONGLY_TYPED as error:  # with --json only: Typer says it otherwise
        output.trouble(error.format_message())
        return int(error.exit_code)
    except typer.Abort:
        output.trouble("nothing was changed")
    return 1

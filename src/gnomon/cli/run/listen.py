"""`gnomon listen`: a webhook receiver that prints every call, and fails calls on request."""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from gnomon import loop
from gnomon.cli.run.keyring import Keyring
from gnomon.cli.shared import output, secret_files
from gnomon.cli.shared.options import settings_of
from gnomon.cli.shared.output import CommandFailed
from gnomon.model.tasks.task import DEFAULT_TENANT

if TYPE_CHECKING:
    from gnomon.cli.run.receiver import Behaviour, ReceivedCall, Receiver, Summary

BODY_SHOWN = 100


def listen(
    ctx: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free one.")] = 9000,
    fail: Annotated[
        int, typer.Option(min=0, metavar="N", help="Fail the first N calls of each task.")
    ] = 0,
    status: Annotated[
        int, typer.Option(min=300, max=599, help="Status code of a failed call.")
    ] = 503,
    delay: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Seconds to wait before each answer.")
    ] = 0.0,
    secret_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Also check with the whsec_… or whpk_… in this file; - is stdin.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document per line.")
    ] = False,
) -> None:
    """Receive webhooks on 127.0.0.1 and print each call. Ctrl-C ends it with a summary.

    \b
    gnomon listen
    gnomon listen --port 9001 --fail 2 --status 500
    """
    from gnomon.cli.run.receiver import Behaviour

    secret = None if secret_file is None else secret_files.read(secret_file, "--secret-file")
    keyring = Keyring(secret, settings_of(ctx))
    _run(Behaviour(fail=fail, status=status, delay=delay), keyring, port, as_json=as_json)


def _run(behaviour: "Behaviour", keyring: Keyring, port: int, *, as_json: bool) -> None:
    from gnomon.cli.run.receiver import Receiver
    from gnomon.clock import SystemClock

    show = _show_json if as_json else _show
    receiver = Receiver(behaviour, keyring.check, SystemClock(), show)
    try:
        loop.run(_serve(receiver, keyring, port, as_json=as_json))
    except OSError as error:
        raise CommandFailed(
            f"cannot listen on port {port}: {error.strerror}; choose another with --port"
        ) from error
    _summarise(receiver.summary, as_json=as_json)


async def _serve(receiver: "Receiver", keyring: Keyring, port: int, *, as_json: bool) -> None:
    from gnomon.cli.run.receiver import serve

    known = await keyring.secrets(DEFAULT_TENANT)

    def started(url: str) -> None:
        checked = "checked" if known else "not checked: no secret is known"
        if as_json:
            _line({"event": "listening", "url": url})
        else:
            output.echo(f"listening on {url}; signatures are {checked}; Ctrl-C ends")

    await serve(receiver, port, started)


def _show(call: "ReceivedCall") -> None:
    facts = [
        f"{call.at:%H:%M:%S}.{call.at.microsecond // 1000:03d}",
        f"{call.method} {call.path} -> {call.answered}",
    ]
    if call.webhook_id is not None:
        facts.append(call.webhook_id)
    if call.tenant not in (None, DEFAULT_TENANT):
        facts.append(f"of {call.tenant}")
    if call.attempt is not None:
        facts.append(f"attempt {call.attempt}")
    if call.delay_seconds is not None:
        facts.append(f"{call.delay_seconds * 1000:+.0f} ms")
    if call.signature is not None:
        facts.append(f"signature {call.signature}")
    output.echo("  ".join([*facts, output.shortened(call.body, BODY_SHOWN)]).rstrip())


def _show_json(call: "ReceivedCall") -> None:
    _line({"event": "call", **msgspec.to_builtins(call)})


def _summarise(summary: "Summary", *, as_json: bool) -> None:
    if as_json:
        _line({"event": "summary", **msgspec.to_builtins(summary)})
    else:
        output.echo(
            f"\n{summary.calls} calls, {summary.tasks} tasks, {summary.duplicates} duplicates"
        )


def _line(document: dict[str, Any]) -> None:
    output.echo(msgspec.json.encode(document).decode())

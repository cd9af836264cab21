"""`gnomon cron sync`: create, change and remove jobs as a file declares.

It can be repeated at any time: it asks what would change, shows that, and does only that. What a
sync that broke off has not done, the next one does.
"""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from gnomon.cli.cron.difference import Act, JobChange, SyncStep, acts_of, compared, document_of
from gnomon.cli.cron.file import BadFile, Declaration, declaration
from gnomon.cli.shared import output, remote
from gnomon.cli.shared.options import ApiUrl, AsJson, Yes, settings_of
from gnomon.cli.shared.values import read
from gnomon.client.errors import ClientError

if TYPE_CHECKING:
    from gnomon.client.client import DocumentClient

DIFFERENCES = 3  # the exit code of `--dry-run --exit-code`

_MARKS = {
    JobChange.CREATED: ("+", "green"),
    JobChange.CHANGED: ("~", "yellow"),
    JobChange.RENAMED: (">", "cyan"),
    JobChange.REMOVED: ("-", "red"),
    JobChange.LEFT: ("?", "dim"),
}
_COUNTED = {
    JobChange.CREATED: "to create",
    JobChange.CHANGED: "to change",
    JobChange.RENAMED: "to rename",
    JobChange.REMOVED: "to remove",
    JobChange.LEFT: "left alone",
    JobChange.UNCHANGED: "unchanged",
}


def sync(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A TOML file, or - for stdin.")],
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove jobs of the set that the file lacks.")
    ] = False,
    set_name: Annotated[
        str | None,
        typer.Option("--set", metavar="NAME", help="Name of the set, instead of the file's."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would change.")
    ] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="With --dry-run: exit with 3 if anything would.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Create, change and remove jobs as a file declares. Shows the changes and asks.

    \b
    gnomon cron sync jobs.toml --dry-run
    gnomon cron sync jobs.toml --prune --yes
    """
    if exit_code and not dry_run:
        raise typer.BadParameter("--exit-code is for --dry-run")
    declared = _declared(file, set_name)
    address = remote.api_url(settings_of(ctx), api)
    steps = remote.call(address, lambda client: compared(client, declared, prune=prune))
    acts = acts_of(steps)
    if not as_json:
        _show(declared, steps)
    if dry_run or not acts:
        if as_json:
            output.document(document_of(declared, steps, []))
        raise typer.Exit(DIFFERENCES if exit_code and acts else 0)
    if not yes:
        output.confirm(f"{_summary(steps)}: go on?")
    _apply(address, declared, steps, acts, as_json=as_json)


def _declared(file: str, set_name: str | None) -> Declaration:
    try:
        return declaration(read(file), set_name)
    except BadFile as bad:
        raise output.CommandFailed(f"{file}: {bad}") from bad


def _apply(
    address: remote.ApiAddress,
    declared: Declaration,
    steps: list[SyncStep],
    acts: list[Act],
    *,
    as_json: bool,
) -> None:
    done: list[Act] = []

    def report(act: Act) -> None:
        done.append(act)
        if not as_json:
            output.echo(f"{act.title}: done")

    async def run(client: "DocumentClient") -> ClientError | None:
        return await _carried_out(client, acts, report)

    failure = remote.call(address, run)
    if as_json:
        output.document(document_of(declared, steps, done))
    if failure is not None:
        raise output.CommandFailed(
            f"{acts[len(done)].title}: {failure}\n"
            f"  {len(done)} of {len(acts)} changes were made; run it again to make the rest"
        )


async def _carried_out(
    client: "DocumentClient", acts: list[Act], report: Callable[[Act], None]
) -> ClientError | None:
    """Do one after the other, up to the first that fails."""
    for act in acts:
        try:
            await act.carry_out(client)
        except ClientError as error:
            return error
        report(act)
    return None


def _show(declared: Declaration, steps: list[SyncStep]) -> None:
    for step in steps:
        if step.change is JobChange.UNCHANGED:
            continue
        mark, style = _MARKS[step.change]
        output.line(f"{mark} {step.name}  {step.told}", style)
        for place, before, after in step.differences:
            output.line(f"    {place}: {_json(before)} -> {_json(after)}")
    output.note(f"set {declared.set_name!r}: {_summary(steps)}")


def _summary(steps: list[SyncStep]) -> str:
    counts = Counter(step.change for step in steps)
    parts = [f"{counts[change]} {words}" for change, words in _COUNTED.items() if counts[change]]
    return ", ".join(parts) or "no jobs"


def _json(value: object) -> str:
    return output.compact(value) or "null"

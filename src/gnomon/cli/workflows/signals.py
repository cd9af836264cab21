"""`gnomon workflows runs signal`: tells a run what its nodes wait for."""

from typing import TYPE_CHECKING, Annotated

import typer

from gnomon.cli.shared import output, remote, values
from gnomon.cli.shared.options import ApiUrl, AsJson, settings_of
from gnomon.cli.workflows.runs import RunId, app, run_id_of

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient


@app.command()
def signal(
    ctx: typer.Context,
    run_id: RunId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The signal's name.")],
    data: Annotated[
        str | None, typer.Option(metavar="JSON", help="Its data, or @FILE; @- is stdin.")
    ] = None,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Send a signal to a run: nodes that wait for it go on with its data.

    One that comes early is kept. The first of a name holds: the same again changes nothing.

    \b
    gnomon workflows runs signal 0199f3a2 approved --data '{"by": "Ada"}'
    """
    sent = None if data is None else values.payload_or_file(data)

    async def act(client: "DocumentClient") -> "Json":
        whole = await run_id_of(client, run_id)
        found: Json = await client.signal_workflow_run(whole, values.path_part(name), sent)
        return found

    found = remote.call(remote.api_url(settings_of(ctx), api), act)
    if as_json:
        output.document(found)
    else:
        output.echo(f"{found['run_id']} has the signal {found['signal']}")

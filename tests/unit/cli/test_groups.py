"""A command takes a group of options as one parameter; the shell sees the options."""

from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from gnomon.cli.shared.groups import OptionGroup, with_groups
from gnomon.cli.tasks.template import TemplateOptions
from gnomon.model.tasks.task import TEMPLATE_FIELDS


class Paint(OptionGroup):
    """Two options."""

    colour: Annotated[str, typer.Option(help="Which.")] = "red"
    coats: Annotated[int, typer.Option("--coats", min=1)] = 1


app = typer.Typer()


@app.command()
@with_groups
def paint(what: str, *, paint: Paint, dry: Annotated[bool, typer.Option("--dry")] = False) -> None:
    """Paint something."""
    typer.echo(f"{what} {paint.colour} {paint.coats} {dry}")


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["door"], "door red 1 False"),
        (["door", "--coats", "2", "--dry"], "door red 2 True"),
        (["--colour", "blue", "door"], "door blue 1 False"),
    ],
)
def test_options_of_a_group_reach_the_command_as_one(arguments: list[str], shown: str) -> None:
    assert CliRunner().invoke(app, arguments).stdout.strip() == shown


def test_options_of_a_group_are_checked_and_described_as_others() -> None:
    refused = CliRunner().invoke(app, ["door", "--coats", "0"])
    assert (refused.exit_code, "--coats" in refused.output) == (2, True)
    described = CliRunner().invoke(app, ["--help"]).stdout
    assert "Paint something" in described
    assert "Which." in described
    assert "--paint" not in described


def test_options_set_every_field_of_a_template() -> None:
    """One that cannot be set by the command line would be missed first by a user."""
    every = TemplateOptions(
        task_type="t", method="PUT", priority="LOW", delivery="exactly_once", max_retries=1,  # type: ignore[arg-type]
        timeout=2.0, tags=["a"], queue="q", preemptible=True, keep_payload="never",  # type: ignore[arg-type]
        sla=5.0, warn_after=60.0,
    )  # fmt: skip
    assert set(every.body("http://127.0.0.1:9/")) == set(TEMPLATE_FIELDS)

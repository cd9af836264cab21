"""`python -m bench`: see docs/proof/measuring.md."""

from typing import Annotated

import msgspec
import typer
from proof.campaigns.pipe_servers import PipeName
from rich.console import Console

from bench import claim as claiming
from bench import compare as comparing
from bench import coordination as coordinating
from bench import counting as adding_up
from bench import cron_jobs as recurring
from bench import cron_steps as stepping
from bench import feeds as feeding
from bench import limits as limiting
from bench import lists as listing
from bench import pages as paging
from bench import pooler as pooling
from bench import quotas as bounding
from bench import remote as working_remotely
from bench import report, running, suite
from bench import watching as watching_pages
from bench import workflows as joining
from bench.long_runs import Json, flame, growth, steady
from bench.peers.command import peers
from bench.running import run_and_report, show_and_write
from gnomon.bench.machine import machine
from gnomon.bench.sizes import QUICK, Sizes

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
app.command()(peers)
app.command()(growth)
app.command()(steady)
app.command()(flame)


@app.callback(invoke_without_command=True)
def everything(
    ctx: typer.Context,
    quick: Annotated[bool, typer.Option("--quick", help="Small counts, within 40 s.")] = False,
    tasks: Annotated[int | None, typer.Option(min=1, help="To drain.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0.1, help="Of each timed measure.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help=f"One of {', '.join(suite.NAMES)}; may be repeated.")
    ] = None,
    json: Json = None,
) -> None:
    """Measure Gnomon on this machine, beside a peer."""
    if ctx.invoked_subcommand is not None:
        return
    sizes = QUICK if quick else Sizes()
    changes = {"tasks": tasks, "seconds": seconds}
    sizes = msgspec.structs.replace(sizes, **{k: v for k, v in changes.items() if v is not None})
    most = {name: min(getattr(sizes, name), sizes.tasks) for name in ("webhooks", "flight")}
    sizes = msgspec.structs.replace(sizes, **most)
    parts = [name for name in suite.NAMES if not only or name in only]
    if only and (unknown := set(only) - set(suite.NAMES)):
        raise typer.BadParameter(f"there is no {', '.join(sorted(unknown))}", param_hint="--only")
    run_and_report(
        "Gnomon on this machine",
        lambda stage, progress: suite.run(stage, sizes, parts, progress),
        msgspec.to_builtins(sizes),
        json,
    )


@app.command()
def claim(
    rows: Annotated[int, typer.Option(min=1, help="Tasks of the far future.")] = 10_000_000,
    rounds: Annotated[int, typer.Option(min=1)] = 5,
    json: Json = None,
) -> None:
    """Measure the claim path with many scheduled tasks in the table, against none."""
    run_and_report(
        f"Claiming beside {rows} scheduled tasks",
        lambda stage, progress: claiming.run(stage, rows, rounds, progress),
        {"rows": rows, "rounds": rounds},
        json,
    )


@app.command()
def lists(
    rows: Annotated[int, typer.Option(min=1, help="Finished tasks.")] = 1_000_000,
    json: Json = None,
) -> None:
    """Measure pages of the task list, with every filter."""
    run_and_report(
        f"Lists over {rows} finished tasks",
        lambda stage, progress: listing.run(stage, rows, progress),
        {"rows": rows},
        json,
    )


@app.command()
def dashboard(
    finished: Annotated[int, typer.Option(min=1, help="Finished tasks.")] = 1_000_000,
    scheduled: Annotated[int, typer.Option(min=1, help="Scheduled tasks.")] = 1_000_000,
    types: Annotated[int, typer.Option(min=1, help="Task types.")] = 1_000,
    tenants: Annotated[int, typer.Option(min=2, help="Tenants.")] = 200,
    times: Annotated[int, typer.Option(min=1, help="That each page is asked for.")] = 15,
    json: Json = None,
) -> None:
    """Measure every page of the dashboard, and its lists with filters."""
    amounts = paging.Amounts(
        finished=finished, scheduled=scheduled, types=types, tenants=tenants, times=times
    )
    run_and_report(
        f"Pages over {finished} finished and {scheduled} scheduled tasks",
        lambda stage, progress: paging.run(stage, amounts, progress),
        msgspec.to_builtins(amounts),
        json,
    )


@app.command()
def watching(
    tasks: Annotated[int, typer.Option(min=1, help="To drain.")] = 100_000,
    pairs: Annotated[int, typer.Option(min=1, help="Fewer than 6 give no 95 %.")] = 10,
    dashboards: Annotated[int, typer.Option(min=1, help="That are open.")] = 50,
    json: Json = None,
) -> None:
    """Measure a drain beside open dashboards, and beside none, in alternating pairs."""
    run_and_report(
        f"A drain beside {dashboards} dashboards, and beside none",
        lambda stage, progress: watching_pages.run(stage, tasks, pairs, dashboards, progress),
        {"tasks": tasks, "pairs": pairs, "dashboards": dashboards},
        json,
    )


@app.command()
def counting(
    tasks: Annotated[int, typer.Option(min=1, help="To drain.")] = 100_000,
    pairs: Annotated[int, typer.Option(min=1, help="Fewer than 6 give no 95 %.")] = 10,
    metrics: Annotated[bool, typer.Option("--metrics", help="Of metrics alone.")] = False,
    json: Json = None,
) -> None:
    """Measure what metrics and activity cost a task, in alternating pairs."""
    run_and_report(
        "A drain that is counted, and one that is not",
        lambda stage, progress: adding_up.run(stage, tasks, pairs, progress, metrics_alone=metrics),
        {"tasks": tasks, "pairs": pairs, "metrics": metrics},
        json,
    )


@app.command()
def cron(
    jobs: Annotated[int, typer.Option(min=1440, help="That fire once a day.")] = 1_000_000,
    herd: Annotated[int, typer.Option(min=1, help="That fire at one instant.")] = 10_000,
    nodes: Annotated[int, typer.Option(min=1, help="Scheduler nodes on this machine.")] = 1,
    json: Json = None,
) -> None:
    """Measure very many cron jobs, and thousands that fire at one instant among them."""
    run_and_report(
        f"{herd} fires at one instant, alone and among {jobs} jobs",
        lambda stage, progress: recurring.run(stage, jobs, herd, nodes, progress),
        {"jobs": jobs, "herd": herd, "nodes": nodes},
        json,
    )


@app.command()
def pooler(
    tasks: Annotated[int, typer.Option(min=1, help="To drain.")] = 20_000,
    seconds: Annotated[float, typer.Option(min=0.1, help="Of each submission.")] = 5.0,
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    json: Json = None,
) -> None:
    """Measure submission and drain with PgBouncer in between, and without."""
    run_and_report(
        "PgBouncer in between, and not",
        lambda stage, progress: pooling.run(stage, tasks, seconds, rounds, progress),
        {"tasks": tasks, "seconds": seconds, "rounds": rounds},
        json,
    )


@app.command()
def coordination(
    times: Annotated[int, typer.Option(min=1, help="That each thing is done.")] = 1_000,
    json: Json = None,
) -> None:
    """Measure what a Redis beside PostgreSQL could save."""
    run_and_report(
        "A Redis for leases, hints and caches, and PostgreSQL alone",
        lambda stage, progress: coordinating.run(stage, times, progress),
        {"times": times},
        json,
    )


@app.command()
def quotas(
    seconds: Annotated[float, typer.Option(min=0.1, help="Of each submission.")] = 1.0,
    rounds: Annotated[int, typer.Option(min=1)] = 20,
    json: Json = None,
) -> None:
    """Measure submissions of a tenant with quotas that do not bind, and without."""
    run_and_report(
        "Quotas that do not bind, and none",
        lambda stage, progress: bounding.run(stage, seconds, rounds, progress),
        {"seconds": seconds, "rounds": rounds},
        json,
    )


@app.command()
def limits(
    tasks: Annotated[int, typer.Option(min=1, help="To drain.")] = 100_000,
    rounds: Annotated[int, typer.Option(min=1, help="Fewer than 6 give no 95 %.")] = 10,
    json: Json = None,
) -> None:
    """Measure a drain under limits that do not bind, and without."""
    run_and_report(
        "Limits that do not bind, and none",
        lambda stage, progress: limiting.run(stage, tasks, rounds, progress),
        {"tasks": tasks, "rounds": rounds},
        json,
    )


@app.command()
def workflows(
    tasks: Annotated[int, typer.Option(min=2, help="Of a fan-in.")] = 10_000,
    steps: Annotated[int, typer.Option(min=2, help="Of a chain.")] = 1_000,
    rounds: Annotated[int, typer.Option(min=1)] = 5,
    json: Json = None,
) -> None:
    """Measure a fan-in beside plain tasks, and the steps of a chain."""
    run_and_report(
        "Workflows: a fan-in, and a chain",
        lambda stage, progress: joining.run(stage, tasks, steps, rounds, progress),
        {"tasks": tasks, "steps": steps, "rounds": rounds},
        json,
    )


@app.command()
def remote(
    tasks: Annotated[int, typer.Option(min=1, help="To drain.")] = 50_000,
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    lone: Annotated[int, typer.Option(min=1, help="Tasks submitted one at a time.")] = 200,
    flight: Annotated[int, typer.Option(min=0, help="On one worker at once; 0: none.")] = 10_000,
    sessions: Annotated[int, typer.Option(min=0, help="Open at once; 0: none.")] = 2_000,
    seconds: Annotated[float, typer.Option(min=1, help="That they are open.")] = 60.0,
    pipes: Annotated[str, typer.Option(help="Of redis, rabbitmq, kafka, by commas.")] = "redis",
    json: Json = None,
) -> None:
    """Measure workers without a database beside those with one, and many idle sessions."""
    plan = working_remotely.Plan(
        tasks=tasks, rounds=rounds, lone=lone, flight=flight, sessions=sessions, seconds=seconds,
        ways=("local", "remote", *filter(None, pipes.split(","))),
    )  # fmt: skip
    run_and_report(
        "Workers without a database, and with one",
        lambda stage, progress: working_remotely.run(stage, plan, progress),
        msgspec.to_builtins(plan),
        json,
    )


@app.command()
def feeds(
    tasks: Annotated[int, typer.Option(min=100, help="To drain.")] = 20_000,
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    pipes: Annotated[str, typer.Option(help="By commas.")] = "redis,rabbitmq,kafka",
    json: Json = None,
) -> None:
    """Measure what a feed of outcomes adds to a drain, and how fast it is published."""
    named = tuple(msgspec.convert(each, PipeName) for each in pipes.split(","))
    run_and_report(
        "Outcomes to brokers",
        lambda stage, progress: feeding.run(stage, named, tasks, rounds, progress),
        {"tasks": tasks, "rounds": rounds, "pipes": pipes},
        json,
    )


@app.command("cron-steps")
def cron_steps(
    steps: Annotated[int, typer.Option(min=1, help="Of each schedule.")] = 500,
    json: Json = None,
) -> None:
    """Measure the step from one fire of a schedule to the next, beside two libraries."""
    facts = machine()
    findings = stepping.run(steps)
    show_and_write(f"From fire to fire in {stepping.ZONE}", facts, findings, {"steps": steps}, json)


@app.command()
def compare(
    commit: Annotated[str, typer.Argument(help="Any name that git knows: a hash, HEAD, HEAD~3.")],
    pairs: Annotated[int, typer.Option(min=1, help="Fewer than 6 give no 95 %.")] = 10,
    tasks: Annotated[int, typer.Option(min=1, help="To submit in batches and drain.")] = 20_000,
    singles: Annotated[int, typer.Option(min=1, help="Requests with one task.")] = 5_000,
    only: Annotated[
        list[str] | None,
        typer.Option(help=f"One of {', '.join(comparing.KINDS)}; may be repeated."),
    ] = None,
    analyze: Annotated[
        bool, typer.Option("--analyze/--no-analyze", help="Vacuum and analyze before a drain.")
    ] = True,
    json: Json = None,
) -> None:
    """Measure this tree, with its uncommitted changes, against another commit, in alternating
    pairs.

    The commit is checked out below build/compare and runs with this environment, or with one of
    its own where requirements.lock differs. Both sides submit over HTTP to their own API, then
    their own node drains what was stored. Printed are the medians of both, the median of the
    ratios of each pair (over 1: this tree has the higher figure) and an interval for it.

    bench compare HEAD~1

    bench compare HEAD --pairs 6   (the noise: a commit against itself)

    bench compare main --only drain --only sustained --tasks 50000
    """
    kinds = tuple(only or ("drain", "submit"))
    if unknown := set(kinds) - set(comparing.KINDS):
        raise typer.BadParameter(f"there is no {', '.join(sorted(unknown))}", param_hint="--only")
    plan = comparing.Plan(pairs=pairs, tasks=tasks, singles=singles, kinds=kinds, analyze=analyze)
    facts, (name, found) = running.run(
        lambda stage, progress: comparing.run(stage, commit, plan, progress)
    )
    console = Console()
    comparing.show(console, name, found)
    running.show_facts(console, facts)
    if json is not None:
        report.write_document(
            json, {"machine": facts, "commit": name, "plan": plan, "comparisons": found}
        )


if __name__ == "__main__":
    app(prog_name="bench")

"""The command line of the proof harness: `python -m proof.campaigns <command>`, see `--help`."""

import argparse
import asyncio
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from proof.campaigns import ledger, report, results, scenarios, zoo
from proof.campaigns.campaign import run
from proof.campaigns.faults import PIPE_RATES
from proof.campaigns.foreign import LANGUAGES
from proof.campaigns.load import REMOTE
from proof.campaigns.pipe_servers import lacking
from proof.campaigns.progress import Progress
from proof.campaigns.setup import Result, Setup, judged, keep, kept

BUILD = ledger.ROOT / "build" / "chaos"
# Kafka does not tell who is there, so it takes beats that are missed to know that one is not.
_LEASES = {None: 3.0, "redis": 5.0, "rabbitmq": 5.0, "kafka": 8.0}
CODES = {"good": 0, "wrong": 1, "invalid": 2}


def chaos(asked: argparse.Namespace) -> int:
    """A full campaign."""
    product = ledger.product()
    if asked.ledger and product.dirty:
        print("src has changes that are not committed: nobody could say what was tried")
        return 2
    if reasons := lacking([asked.pipe]):
        print(*reasons, sep="\n", file=sys.stderr)
        return 2
    setup = Setup(seed=asked.seed, seconds=asked.seconds, rate=asked.rate, density=asked.density)
    if asked.workers:
        setup = msgspec.structs.replace(
            setup,
            name="remote",
            workers=asked.workers,
            languages=tuple(asked.languages),
            pipe=asked.pipe,
            apis=2,
            nodes=1,
            lease=_LEASES[asked.pipe],
            mix=REMOTE,
        )
    if asked.workflows or asked.batches or asked.instants:
        mix = msgspec.structs.replace(
            setup.mix,
            workflows=asked.workflows,
            batches=asked.batches,
            instants=asked.instants,
        )
        setup = msgspec.structs.replace(setup, mix=mix)
    folder = _folder(f"seed{setup.seed}")
    with Progress(f"campaign, seed {setup.seed}") as progress:
        result = asyncio.run(run(setup, progress, folder))
    command = (
        f'make chaos ARGS="--seed {setup.seed} --seconds {setup.seconds:g} --rate {setup.rate:g} '
        f'--density {setup.density:g}{_workers(setup)}{_workflows(setup)}"'
    )
    code = _finish(folder, result, product, command)
    if asked.ledger:
        if not ledger.same(product, ledger.product()):
            print("src was changed meanwhile, and processes were started from it: no line")
            return 2
        ledger.append(_line(result, product))
        print(ledger.readable(ledger.read(), product.tree))
    return code


def judge(asked: argparse.Namespace) -> int:
    """The records of a campaign, judged again."""
    result = judged(*kept(asked.folder))
    print(report.summary(result))
    return CODES[result.verdict]


def show_ledger(_asked: argparse.Namespace) -> int:
    """What the ledger adds up to."""
    print(ledger.readable(ledger.read(), ledger.product().tree))
    return 0


def scenario(asked: argparse.Namespace) -> int:
    """One of the named shorter ones, or all of them."""
    names = [asked.name] if asked.name else list(scenarios.SCENARIOS)
    codes = []
    for name in names:
        with Progress(name) as progress:
            found = asyncio.run(scenarios.run(name, asked.seed, _folder(name), progress))
        print(found.readable())
        codes.append(0 if found.passed else 1)
    return max(codes)


def wait_for_results(asked: argparse.Namespace) -> int:
    """Programs that wait for the results of handlers."""
    return results.main(asked.seed, asked.seconds, asked.rate)


def show_zoo(asked: argparse.Namespace) -> int:
    """Each planted bug, or each of its campaigns without it."""
    return asyncio.run(zoo.run_all(asked.only, control=asked.control, write=not asked.only))


def _workflows(setup: Setup) -> str:
    workflows = f" --workflows {setup.mix.workflows:g}" if setup.mix.workflows else ""
    instants = f" --instants {setup.mix.instants:g}" if setup.mix.instants else ""
    return workflows + (f" --batches {setup.mix.batches:g}" if setup.mix.batches else "") + instants


def _workers(setup: Setup) -> str:
    if not setup.workers:
        return ""
    pipe = "" if setup.pipe is None else f" --pipe {setup.pipe}"
    return f" --workers {setup.workers} --languages {' '.join(setup.languages)}{pipe}"


def _folder(name: str) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    folder = BUILD / f"{stamp}-{name}"
    folder.mkdir(parents=True)
    return folder


def _finish(folder: Path, result: Result, product: ledger.Product, command: str) -> int:
    keep(folder, result.setup, result.history)
    page = report.write(folder, result, product, command)
    print(report.summary(result))
    print(f"report: {page.relative_to(ledger.ROOT)}")
    return CODES[result.verdict]


def _line(result: Result, product: ledger.Product) -> ledger.Line:
    counts = result.judgement.counts
    return ledger.Line(
        at=datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds"),
        commit=product.commit,
        product=product.tree,
        seed=result.setup.seed,
        seconds=result.setup.seconds,
        verdict=result.verdict,
        acknowledged=counts.pop("acknowledged"),
        faults=dict(Counter(f.kind for f in result.history.faults if f.took_effect)),
        counts=counts,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m proof.campaigns", description=__doc__)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("chaos", help=chaos.__doc__)
    command.add_argument("--seconds", type=float, default=120.0, help="of load and faults")
    command.add_argument("--seed", type=int, default=1)
    command.add_argument("--rate", type=float, default=60.0, help="tasks a second")
    command.add_argument("--density", type=float, default=1.0, help="of faults")
    command.add_argument("--workflows", type=float, default=0.0, help="share of the tasks")
    command.add_argument("--batches", type=float, default=0.0, help="share of the tasks")
    command.add_argument(
        "--instants", type=float, default=0.0, help="seconds: functions are due at multiples of it"
    )
    command.add_argument("--workers", type=int, default=0, help="remote ones, for all handlers")
    command.add_argument(
        "--languages", nargs="+", choices=LANGUAGES, default=["python"], help="of these, in turn"
    )
    command.add_argument(
        "--pipe", choices=list(PIPE_RATES), help="that the remote workers are behind"
    )
    command.add_argument("--ledger", action="store_true", help="add a line to docs/proof")
    command.set_defaults(run=chaos)
    command = commands.add_parser("judge", help=judge.__doc__)
    command.add_argument("folder", type=Path)
    command.set_defaults(run=judge)
    command = commands.add_parser("ledger", help=show_ledger.__doc__)
    command.set_defaults(run=show_ledger)
    command = commands.add_parser("scenario", help=scenario.__doc__)
    command.add_argument("name", nargs="?", choices=list(scenarios.SCENARIOS))
    command.add_argument("--seed", type=int, default=1)
    command.set_defaults(run=scenario)
    command = commands.add_parser("results", help=wait_for_results.__doc__)
    command.add_argument("--seconds", type=float, default=60.0, help="of load and faults")
    command.add_argument("--seed", type=int, default=1)
    command.add_argument("--rate", type=float, default=20.0, help="tasks a second")
    command.set_defaults(run=wait_for_results)
    command = commands.add_parser("zoo", help=show_zoo.__doc__)
    command.add_argument("--only", nargs="+", choices=list(zoo.ZOO), default=[])
    command.add_argument("--control", action="store_true", help="the same without the bugs")
    command.set_defaults(run=show_zoo)
    return parser.parse_args()


if __name__ == "__main__":
    arguments = _arguments()
    sys.exit(arguments.run(arguments))

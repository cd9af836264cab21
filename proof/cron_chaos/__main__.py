"""The command line of `cron_chaos`: progress on a terminal, and a report to read and to keep."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

import msgspec
from proof.cron_chaos.chaos import BETWEEN_KILLS, Chaos, Plan, Report
from tests.conftest import migrated

from gnomon.store.embedded import EmbeddedServer

_SHOWN = 10  # of each kind of error


def readable(report: Report) -> str:
    seen, plan = report.judgement, report.plan
    verdict = "HOLDS" if report.holds else "FAILS" if report.valid else "INVALID: too few faults"
    lines = [
        f"{verdict}: {plan.jobs} jobs, every second for {plan.seconds:g} s, seed {plan.seed}",
        f"  faults         {report.kills} nodes killed with kill -9, {report.freezes} frozen",
        f"  takeovers      {report.declared_dead} nodes declared dead",
        f"  fires          {seen.fires}",
        f"  runs           {seen.runs}, called {seen.calls} times ({seen.repeated} repeated tries)",
        f"  skipped        {len(seen.gaps)} fires of jobs that skip",
        f"  recovery       {report.recovery:.1f} s after the lease ran out and nodes were back;",
        f"                 windows of that length cover {report.covered:.0%} of the time",
        f"  slowest        {report.last_try:.1f} s from a fire to a try of its run",
        f"  left           {report.unsettled} to settle, {report.dead_letters} dead letters",
        f"  wrong          {sum(len(found) for found in seen.wrong.values())}",
    ]
    lines += [f"    a node died by itself: {words}" for words in report.deaths]
    for name, found in seen.wrong.items():
        lines.append(f"    {name}: {len(found)}, such as {found[:_SHOWN]}")
    if report.holds:
        lines.append(
            f"  so, with 95 % confidence, fewer than {report.bound:.1e} of all fires (3/n)"
        )
    return "\n".join(lines)


def kept(report: Report) -> bytes:
    judgement = report.judgement._asdict() | {"gaps": len(report.judgement.gaps)}
    facts = {
        **msgspec.to_builtins(report),
        "judgement": judgement,
        "valid": report.valid,
        "holds": report.holds,
        "bound": report.bound,
    }
    return msgspec.json.format(msgspec.json.encode(facts), indent=1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos-cron", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--between",
        type=float,
        nargs=2,
        metavar=("LEAST", "MOST"),
        default=BETWEEN_KILLS,
        help="seconds from one fault to the next; more of them leave more time without any",
    )
    parser.add_argument("--json", type=Path, help="write the report here, too")
    return parser.parse_args()


def _show(line: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


def main() -> int:
    asked = _arguments()
    least, most = asked.between
    plan = Plan(asked.seconds, asked.jobs, asked.seed, (least, most))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with EmbeddedServer(
            folder / "data", settings_overrides={"shared_buffers": "64MB"}
        ) as server:
            asyncio.run(migrated(server.dsn))
            report = asyncio.run(Chaos(plan, server.dsn, folder, _show).run())
    _show("")
    print(readable(report))
    if asked.json is not None:
        asked.json.write_bytes(kept(report))
    return 0 if report.holds else 1


if __name__ == "__main__":
    sys.exit(main())

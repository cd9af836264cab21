"""`make chaos-alerts`: faults one after another, and which alerts they raise."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

import msgspec
from proof.alerts.campaign import Result, run, table
from proof.alerts.faults import FAULTS

SHORT = ("control", "all-nodes-killed", "dead-letter-flood")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos-alerts", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--short", action="store_true", help=f"only {', '.join(SHORT)}")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    asked = parser.parse_args()
    results: list[Result] = []
    for name in SHORT if asked.short else asked.only:
        with tempfile.TemporaryDirectory(prefix="alerts-") as folder:
            results.append(asyncio.run(run(FAULTS[name], Path(folder))))
        print(_line(results[-1]), file=sys.stderr, flush=True)
    if asked.json:
        print(msgspec.json.encode([each._asdict() for each in results]).decode())
    else:
        print(table(results))
    return 0 if all(each.good for each in results) else 1


def _line(result: Result) -> str:
    wrong = {
        what: names
        for what in ("missed", "unexpected", "early")
        if (names := getattr(result, what))
    }
    return f"{result.fault}: {wrong or 'as expected'} ({result.seconds} s)"


if __name__ == "__main__":
    sys.exit(main())

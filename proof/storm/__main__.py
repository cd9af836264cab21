"""`make storm`: many dead letters in a minute, and what those who subscribed are told of it."""

import argparse
import asyncio
import sys
import tempfile
from dataclasses import fields
from pathlib import Path

from proof.storm.scenario import Size, judge, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="make storm", description=__doc__)
    for each in fields(Size):
        parser.add_argument(
            f"--{each.name.replace('_', '-')}", type=type(each.default), default=each.default
        )
    size = Size(**vars(parser.parse_args()))
    with tempfile.TemporaryDirectory(prefix="storm-") as folder:
        seen = asyncio.run(run(Path(folder), size))
    print(seen.readable(), flush=True)
    wrong = judge(seen, size)
    for what in wrong:
        print(f"FAILED: {what}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""`make exactly-once`: own transactions under kills. Tasks exist exactly where their transaction
was committed, and what transactional handlers write is there once."""

import argparse
import asyncio
import sys
import tempfile
from dataclasses import fields
from pathlib import Path

from proof.exactly_once.scenario import Size, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="make exactly-once", description=__doc__)
    for each in fields(Size):
        parser.add_argument(f"--{each.name}", type=type(each.default), default=each.default)
    size = Size(**vars(parser.parse_args()))
    with tempfile.TemporaryDirectory(prefix="exactly-once-") as folder:
        wrong = asyncio.run(run(Path(folder), size))
    for what in wrong:
        print(f"FAILED: {what}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

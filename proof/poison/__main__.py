"""`make poison`: how long a function that kills its process keeps the tasks of others waiting."""

import argparse
import asyncio
import sys
import tempfile
from dataclasses import fields
from pathlib import Path

from proof.poison.scenario import Size, judge, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="make poison", description=__doc__)
    for each in fields(Size):
        parser.add_argument(f"--{each.name}", type=type(each.default), default=each.default)
    size = Size(**vars(parser.parse_args()))
    with tempfile.TemporaryDirectory(prefix="poison-") as folder:
        calm = asyncio.run(run(Path(folder) / "calm", size, 0))
        print(f"without killers: {calm.readable()}", flush=True)
        poisoned = asyncio.run(run(Path(folder) / "poisoned", size, size.killers))
        print(f"with killers:    {poisoned.readable()}", flush=True)
    wrong = judge(calm, poisoned, size)
    for what in wrong:
        print(f"FAILED: {what}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m proof.campaigns.boot <parent> <arguments of gnomon>`: how a campaign starts Gnomon.

The process dies with its parent, can be made to die at named points, and may have a bug planted in
it. Apart from that it is `python -m gnomon`.
"""

import os
import sys
from pathlib import Path

from proof.campaigns import points

from gnomon.cli.main import main
from gnomon.node.run.parent import die_with_parent

CRASH_FILE = "GNOMON_PROOF_CRASH_FILE"
MUTANT = "GNOMON_PROOF_MUTANT"


def boot(parent: int, arguments: list[str]) -> None:
    die_with_parent(parent)
    if mutant := os.environ.get(MUTANT):
        from proof.campaigns import patches

        patches.apply(mutant)
    # Last, so that a planted bug lies within what the points surround.
    points.watch(Path(os.environ[CRASH_FILE]), arguments[0])
    main(arguments)


if __name__ == "__main__":
    boot(int(sys.argv[1]), sys.argv[2:])

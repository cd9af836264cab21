"""`python -m gnomon`, where one node counts what the database holds twice a second: windows of
time are scaled down, and so is that pace. The process ends with the one that started it."""

import sys

from gnomon.node.maintenance import overview_keeper
from gnomon.node.run.parent import die_with_parent

EVERY_SECONDS = 0.5
HELD_SECONDS = 1.5

if __name__ == "__main__":
    overview_keeper.EVERY_SECONDS = EVERY_SECONDS
    overview_keeper._HELD_SECONDS = HELD_SECONDS
    from gnomon.cli.main import main

    die_with_parent(int(sys.argv[1]))
    main(sys.argv[2:])

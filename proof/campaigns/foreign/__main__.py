"""`python -m proof.campaigns.foreign <parent> <command>`: becomes the command, and ends with its
parent: the kernel remembers that for whatever program the process runs."""

import os
import sys

from gnomon.node.run.parent import die_with_parent

if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])

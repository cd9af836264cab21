"""A child process of a node: `python -m gnomon.worker.quarantine`, which only nodes start."""

from gnomon.worker.quarantine.child import main

main()

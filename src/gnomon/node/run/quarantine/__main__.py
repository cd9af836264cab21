"""A child process of a node: `python -m gnomon.node.run.quarantine`, which only nodes start."""

from gnomon.node.run.quarantine.child import main

main()

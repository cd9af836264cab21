"""A child process of a node: `python -m gnomon.node.run.children`, which only nodes start."""

from gnomon.node.run.children.child import main

main()

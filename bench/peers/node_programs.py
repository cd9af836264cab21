"""How the programs of the Node peers are run."""

from collections.abc import Mapping, Sequence

from bench.peers.installing import PEERS, NotInstallable, built, node


def node_command(name: str) -> Sequence[str]:
    try:
        interpreter = str(node())
    except NotInstallable:  # whoever wants to run it is told so when it is installed
        interpreter = "node"
    return [interpreter, str(PEERS / name / "program.cjs")]


def node_environ(name: str) -> Mapping[str, str]:
    return {"NODE_PATH": str(built(name) / "node_modules"), "NODE_ENV": "production"}

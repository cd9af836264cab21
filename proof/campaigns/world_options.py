"""What a world is made of."""

from typing import Literal

import msgspec
from proof.campaigns.foreign import Language
from proof.campaigns.pipe_servers import PipeName


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Its processes, and how they are set."""

    nodes: int = 3
    apis: int = 1
    workers: int = 0  # remote ones; with any, no node runs handlers
    languages: tuple[Language, ...] = ("python",)  # of the remote ones, in turn
    pipe: PipeName | None = None  # that the remote ones are behind
    slots: int = 64  # of each node
    lease: float = 2.0
    grace: float = 4.0  # seconds after a task's timeout until others take it over
    replica: Literal["synchronous", "asynchronous"] | None = None
    tmpfs_megabytes: int | None = None
    skews: dict[str, float] = {}  # seconds that the clock of a process is ahead
    mutant: str | None = None
    downtime: float = 5.0  # seconds until one that was killed is started again, if nobody does it

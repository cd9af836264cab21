"""How much of everything a run does."""

import msgspec


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults are for figures worth writing down."""

    tasks: int = 50_000  # drained, by Gnomon and by the peer
    webhooks: int = 20_000
    seconds: float = 10.0  # of each measure that goes by time
    idle: int = 300  # tasks submitted one at a time
    herd: int = 1_000  # tasks due at one instant
    rounds: int = 3  # of the herd


QUICK = Sizes(tasks=10_000, webhooks=2_000, seconds=2.0, idle=40, herd=1_000, rounds=1)

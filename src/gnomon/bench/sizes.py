"""How much of everything a run does."""

import msgspec


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults are for figures worth writing down."""

    tasks: int = 50_000  # drained, by Gnomon and by the peer
    webhooks: int = 20_000
    seconds: float = 10.0  # of each measure that goes by time
    most: int = 10_000_000  # tasks of such a measure, which ends sooner then
    idle: int = 300  # tasks submitted one at a time
    herd: int = 1_000  # tasks due at one instant
    herds: int = 5
    large_herd: int = 10_000
    rounds: int = 3  # of the large herd, and of drains under limits
    singles: tuple[int, ...] = (2_000, 4_000, 6_000, 8_000)  # open loop: tasks a second, one a call
    batches: tuple[int, ...] = (20_000, 35_000, 50_000)  # open loop: tasks a second, in batches
    flight: int = 10_000  # webhooks under way at once on one node
    tenants: int = 100  # that a drain is spread over, with all priorities


QUICK = Sizes(
    tasks=10_000,
    webhooks=2_000,
    seconds=2.0,
    idle=40,
    herd=1_000,
    herds=1,
    large_herd=2_000,
    rounds=1,
    singles=(500, 1_000),
    batches=(5_000,),
    flight=2_000,
    tenants=20,
)

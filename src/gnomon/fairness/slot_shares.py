"""How many slots of a node one tenant may hold, so that others find some."""

import math


class SlotShares:
    """The slots of a node, and the part of them that one tenant may hold.

    The rest is kept for tenants that hold few: whoever holds n of them leaves the last n times n
    to others, and never needs to leave more than the rest. So a tenant alone can hold `share` of
    all, tenants that hold many stop at the same point and what is fair between them is not
    changed, and about twice as many newcomers as the root of the rest find a slot, even when each
    of them takes all that it may and never ends. The slots for CRITICAL tasks are divided likewise.
    """

    def __init__(self, general: int, urgent: int = 0, share: float = 1.0) -> None:
        self.general = general
        self.urgent = urgent  # in addition, for CRITICAL tasks only
        self.share = share
        self._rest = _part(general, 1 - share)
        self._urgent_rest = _part(urgent, 1 - share)

    def room(self, held: int, others: int, critical: int) -> int:
        """How many a tenant that holds `held` may take at once, or fewer, though one at least if
        it may take any; where all tenants hold `others` in lanes below CRITICAL, and `critical`
        in CRITICAL."""
        free = self.general - others
        if critical > self.urgent:
            free -= critical - self.urgent
        if free > self._rest:
            return free - self._rest
        return 1 if free > held * held else 0

    def urgent_room(self, held: int, critical: int) -> bool:
        """Whether a tenant that holds `held` CRITICAL tasks may use a slot that is kept for them,
        where all hold `critical`."""
        free = self.urgent - critical
        return free > self._urgent_rest or free > held * held


def _part(slots: int, share: float) -> int:
    # Rounded first: 10 * (1 - 0.9) is a little less than one.
    return math.ceil(round(slots * share, 6))

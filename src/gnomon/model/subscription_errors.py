"""Refusals of subscriptions. Part of the tree in errors.py."""

from uuid import UUID

from gnomon.model.errors import GnomonError


class SubscriptionNotFound(GnomonError):
    """No such subscription of this tenant, or of the installation."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no subscription {name!r}")
        self.name = name


class NotificationNotFound(GnomonError):
    """Not among the last notifications of the subscription."""

    def __init__(self, notification_id: UUID | str) -> None:
        super().__init__(f"{notification_id} is not among the last notifications")
        self.notification_id = notification_id


class TooManySubscriptions(GnomonError):
    """A tenant has as many subscriptions as it may have."""

    def __init__(self, most: int) -> None:
        super().__init__(f"there are {most} subscriptions, the most that may be; remove one first")
        self.most = most


class TooManyConfirmations(GnomonError):
    """Addresses were asked for their consent often enough."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"addresses were asked for their consent {most} times within an hour, the most that "
            "may be; the subscription is stored: put it again later to ask for it"
        )
        self.most = most


class TooManyTests(GnomonError):
    """Tests of a subscription are waiting already."""

    def __init__(self, most: int) -> None:
        super().__init__(f"{most} tests of this subscription have not ended; wait for one of them")
        self.most = most


class InvalidToken(GnomonError):
    """No subscription waits for this token."""

    def __init__(self) -> None:
        super().__init__(
            "no subscription waits for this token: it was used, it is older than a day, or another "
            "was sent since"
        )


class NotConfirmed(GnomonError):
    """The address of a subscription has not been confirmed."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the address of {name!r} is not confirmed: its owner confirms it with the token that "
            "was sent there; put the subscription again to send another"
        )
        self.name = name

"""Refusals of feeds of outcomes. Part of the tree in errors.py."""

from gnomon.model.errors import GnomonError


class FeedNotFound(GnomonError):
    """No such feed of this tenant."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no feed {name}")
        self.name = name


class TooManyFeeds(GnomonError):
    """A tenant has as many feeds as it may have."""

    def __init__(self, most: int) -> None:
        super().__init__(f"there are {most} feeds, the most that may be; remove one first")
        self.most = most

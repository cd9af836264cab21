"""Refusals of saved views. Part of the tree in errors.py."""

from gnomon.model.errors import GnomonError


class SavedViewNotFound(GnomonError):
    """No such saved view of this tenant."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no saved view {name!r}")
        self.name = name


class TooManySavedViews(GnomonError):
    """A tenant has as many saved views as it may have."""

    def __init__(self, most: int) -> None:
        super().__init__(f"there are {most} saved views, the most that may be; remove one first")
        self.most = most

"""What somebody whom we know may not do, because they are held to part of it. In the tree of
errors.py."""

from gnomon.model.errors import GnomonError, InvalidTask


class TypeForbidden(InvalidTask):
    """A task type outside of the list that a key was made with."""


class TargetForbidden(InvalidTask):
    """A target outside of the allow-list of a tenant or a key."""


class KeyForbidden(GnomonError):
    """An API key that may do more than whoever would end, replace or imitate it."""


class LimitedKey(GnomonError):
    """Something that concerns all of a tenant's work, asked by a key that is held to part of it."""

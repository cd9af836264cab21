"""Errors of the embedded server, in words a user can act on."""


class EmbeddedError(Exception):
    """The embedded server cannot be started or used. The message can be printed as it is."""

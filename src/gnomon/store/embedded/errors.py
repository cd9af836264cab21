"""What can go wrong with the embedded server, in words a user can act on."""


class EmbeddedError(Exception):
    """The embedded server cannot be had. The message is fit to be printed as it is."""

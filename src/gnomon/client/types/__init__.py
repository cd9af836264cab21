"""Documents of the API: a `…Spec` creates, a `…Edit` changes, an `…Info` is an answer.

They are not the server's own types: a payload is a Python value here and bytes there, and members
that a newer server adds to an answer are ignored here. A test compares both with the OpenAPI
document.
"""

import msgspec


class Spec(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Base of requests. Fields that are not given are not sent: the server has the defaults."""

"""The type of an error, by its text: that may hold parts of a payload, and a type does not."""

import re

_TYPE = re.compile(r"(HTTP [0-9]{3})\b|([A-Za-z_][A-Za-z0-9_.]{0,99})(?=:|$)", re.ASCII)


def error_type(error: str | None) -> str | None:
    """`HTTP 503` or `ValueError` of what begins with it; None where it begins otherwise."""
    found = None if error is None else _TYPE.match(error)
    return None if found is None else found[0]

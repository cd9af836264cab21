"""An error in words, whatever its class says of itself."""

from gnomon.model.text import storable

MAX_ERROR = 2000  # characters that are kept of it


def describe(error: BaseException) -> str:
    """Its type and text. The text is the word of a user's class: it may be endless, be no text, or
    raise anything."""
    name = type(error).__name__
    try:
        text = str(error)[:MAX_ERROR]
    except BaseException as inner:  # noqa: BLE001 - whatever it raises, it must not escape
        text = f"{name} (its text cannot be had: {type(inner).__name__})"
        return storable(text[:MAX_ERROR])
    return storable((f"{name}: {text}" if text else name)[:MAX_ERROR])

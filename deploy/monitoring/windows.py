"""Windows of time in expressions, which a campaign scales so that it need not wait for hours.

An expression writes a window as `[$5m]`, and an age in seconds that a gauge shows as `$(300)`.
Bounds that histograms measure (a start within 5 s) are what they are, whatever the scale.
"""

import re

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_WINDOW = re.compile(r"\$(\d+[smhd])\b")
_AGE = re.compile(r"\$\((\d+)\)")


def scaled(expression: str, scale: float) -> str:
    """The expression with its windows and ages divided by `scale`."""
    expression = _WINDOW.sub(lambda found: duration(found[1], scale), expression)
    return _AGE.sub(lambda found: f"{int(found[1]) / scale:g}", expression)


def duration(text: str, scale: float) -> str:
    """Prometheus' way to write a duration: as given, or in milliseconds once it is scaled."""
    return text if scale == 1 else f"{round(seconds(text) * 1000 / scale)}ms"


def seconds(text: str) -> int:
    """How long `5m` is."""
    return int(text[:-1]) * _UNITS[text[-1]]

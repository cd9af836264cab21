"""Small charts within text, drawn here; the style sheet gives them their colours."""

from collections.abc import Sequence

from markupsafe import Markup

_BAR, _GAP, _HEIGHT = 3, 1, 20


def sparkline(values: Sequence[int], label: str) -> Markup:
    """A bar for each value; those that are not zero can be seen, however small they are."""
    most = max([*values, 1])
    bars = Markup("").join(
        _bar(place * (_BAR + _GAP), max(value * _HEIGHT / most, 2.0))
        for place, value in enumerate(values)
        if value
    )
    width = len(values) * (_BAR + _GAP)
    return Markup(
        '<svg class="spark" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}">'
        '<rect class="base" x="0" y="{}" width="{}" height="1"/>{}</svg>'
    ).format(width, _HEIGHT + 1, width, _HEIGHT + 1, label, _HEIGHT, width, bars)


def _bar(x: int, height: float) -> Markup:
    return Markup('<rect x="{}" y="{}" width="{}" height="{}"/>').format(
        x, f"{_HEIGHT - height:.1f}", _BAR, f"{height:.1f}"
    )

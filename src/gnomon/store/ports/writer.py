"""A transaction that may still bring tasks."""

from datetime import datetime
from typing import NamedTuple


class Writer(NamedTuple):
    """It has written something and not ended. What it brings is due since it began, or later."""

    began: datetime
    session: int

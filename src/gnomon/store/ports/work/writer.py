"""A transaction that may still bring tasks."""

from datetime import datetime
from typing import NamedTuple


class Writer(NamedTuple):
    """A transaction that has written something and not ended. Its tasks are due
    since it began, or later."""

    began: datetime
    session: int

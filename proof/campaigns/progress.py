"""Where a campaign stands: a live table on a terminal, a line now and then elsewhere."""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

_EVERY = 15.0  # seconds between lines


class Progress:
    """Use as a context manager, and tell it the facts as often as you like."""

    def __init__(self, title: str, *, quiet: bool = False) -> None:
        self._title = title
        self._quiet = quiet
        console = Console(stderr=True)
        self._live = Live(console=console, transient=True) if console.is_terminal else None
        self._told_at = float("-inf")
        self._stage = ""

    def __enter__(self) -> Self:
        if self._live is not None and not self._quiet:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def tell(self, stage: str, facts: Mapping[str, object]) -> None:
        if self._quiet:
            return
        if self._live is not None:
            self._live.update(self._table(stage, facts))
        elif stage != self._stage or time.monotonic() - self._told_at >= _EVERY:
            self._told_at, self._stage = time.monotonic(), stage
            words = "  ".join(f"{name} {value}" for name, value in facts.items())
            print(f"{self._title}: {stage}  {words}", flush=True)

    def _table(self, stage: str, facts: Mapping[str, object]) -> Table:
        table = Table(title=f"{self._title}: {stage}", show_header=False)
        for name, value in facts.items():
            table.add_row(name, str(value))
        return table

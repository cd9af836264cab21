"""One alert, as rules, pages and tests know it."""

import re
from dataclasses import dataclass, field
from enum import StrEnum


class Urgency(StrEnum):
    """How soon somebody has to look. Alertmanager routes by it."""

    P1 = "P1"  # at once, at any hour
    P2 = "P2"  # soon, at any hour
    P3 = "P3"  # in working hours


@dataclass(frozen=True)
class Alert:
    """`value` answers with data wherever Gnomon is scraped; `when` compares it."""

    name: str
    severity: Urgency
    value: str
    when: str
    lasting: str  # the `for` of the rule
    summary: str
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def expression(self) -> str:
        return f"{self.value} {self.when}"

    @property
    def page(self) -> str:
        """Its file in `docs/runbooks/`: GnomonNoNode has no-node.md."""
        words = re.findall(r"[A-Z][a-z0-9]*", self.name.removeprefix("Gnomon"))
        return "-".join(words).lower() + ".md"

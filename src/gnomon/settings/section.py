"""The base of every section: a table of `gnomon.toml`, with checks that name the setting."""

import math
from ipaddress import ip_network
from typing import ClassVar

import msgspec


class SettingsError(ValueError):
    """A setting that cannot be used. The message names it and says what would be right."""


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One section. Its checks run whenever it is made, and call a setting `section.name`."""

    SECTION: ClassVar[str]

    def require(self, name: str, rule: str, *, holds: bool) -> None:
        """Raise ValueError unless the rule holds, as in "node.slots must be at least 1"."""
        if not holds:
            raise ValueError(f"{self.SECTION}.{name} must {rule}")

    def require_at_least_one(self, *names: str) -> None:
        for name in names:
            self.require(name, "be at least 1", holds=1 <= getattr(self, name) < math.inf)

    def require_positive(self, *names: str) -> None:
        for name in names:
            self.require(name, "be a positive number", holds=0 < getattr(self, name) < math.inf)

    def require_not_negative(self, *names: str) -> None:
        for name in names:
            self.require(name, "not be negative", holds=0 <= getattr(self, name) < math.inf)

    def require_networks(self, *names: str) -> None:
        for name in names:
            for text in getattr(self, name):
                try:
                    ip_network(text)
                except ValueError as error:
                    rule = f"be networks such as 10.1.0.0/16: {error}"
                    self.require(name, rule, holds=False)

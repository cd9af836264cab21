"""Holds what is due soon, and lets it go on time: never early."""

from gnomon.wheel.wheel import Wheel

__all__ = ["Wheel"]

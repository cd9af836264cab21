"""The domain as types and pure functions: no I/O, no clock, no randomness."""

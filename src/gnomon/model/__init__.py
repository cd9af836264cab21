"""The words of Gnomon as types, and its decisions as pure functions."""

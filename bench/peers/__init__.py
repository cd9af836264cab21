"""Gnomon beside its peers, in one run: `make bench ARGS=peers`."""

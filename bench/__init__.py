"""Measures Gnomon on this machine, beside a peer in the same run: `make bench`."""

"""Bounds: what keeps one caller's requests from stopping another's."""

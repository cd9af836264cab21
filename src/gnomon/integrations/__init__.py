"""Gnomon in web frameworks: `gnomon.integrations.fastapi`, `.flask` and `.django`.

To receive webhooks with them, see `gnomon.receive`.
"""

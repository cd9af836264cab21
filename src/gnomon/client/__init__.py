"""The clients of the HTTP API: `Client` for asyncio, `SyncClient` for the rest, one set of calls.

`calls/` describes each request as a value, `exchange.py` says when to repeat one, `http.py` sends
it, and `operations.py` makes methods of the calls.
"""

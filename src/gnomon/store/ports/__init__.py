"""Store ports and their values.

A port is a Protocol where a second store will implement it: `dispatch`, `roster`, `planning`. Each
has a contract suite in `gnomon.testing.contracts`. The other modules hold the values that go in and
out of the PostgreSQL classes, which callers name themselves. Every store promises:

Truth. Nothing is acknowledged before it is committed: when a method returns, its effect survives
the loss of every process. When it raises `StoreUnavailable`, the effect may or may not have
happened (the answer to a COMMIT can be lost), so each method can be called again with the same
arguments without doing it twice.

Time. Only the store's own clock decides what is due and which node is alive.

Fences. Every entry into and exit from RUNNING makes the task's fence grow. `settle` writes only
where fence and incarnation are still those of the claim; what is refused is simply not in its
answer.

Tenants. Every key carries its tenant; another tenant's task does not exist.
"""

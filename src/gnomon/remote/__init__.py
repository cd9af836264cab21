"""A worker without a database: it runs the handlers of an app, and talks to a gateway over HTTP.

It is the worker of a node (`node/run`) with a pipe in memory whose far end is a poll loop: reports
and free slots go up, deliveries and commands come down. `docs/reference/worker-protocol.md` has the
calls.
"""

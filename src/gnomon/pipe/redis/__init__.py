"""Workers behind Redis (or Valkey): the calls of the worker protocol, carried by its channels.

Redis is where the two ends meet, and stores nothing. Each connection of a process has a channel of
its own, with a new name each time that it connects: so a channel stands for a connection, as a
socket does. Whoever publishes learns whether anybody listens, and whoever waits for an answer asks
every second whether the other end still does. A call that was cut off is made again, as over HTTP:
the protocol has numbers, epochs and fences for that.

Next: `frames.py` has the messages, `link.py` the connection.
"""

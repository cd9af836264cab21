"""Workers behind a broker: the calls of the worker protocol, carried by Redis, RabbitMQ or Kafka.

The broker is where the two ends meet, and keeps nothing that matters. Each connection of a process
has a channel of its own, with a new name each time that it connects: so a channel stands for a
connection, as a socket does. A call that was cut off is made again, as over HTTP: the protocol has
numbers, epochs and fences for that.

Next: `frames.py` has the messages, `link.py` the port that each broker has an adapter of.
"""

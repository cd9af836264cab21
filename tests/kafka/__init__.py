"""A Kafka of our own: its jars by their coordinates, and a server in a folder of its own."""

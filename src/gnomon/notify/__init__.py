"""Rules of notifications: who is told of what, when, and in which words. Pure."""

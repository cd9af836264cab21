"""Child processes of a node, which call handlers for it."""

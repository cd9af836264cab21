"""Submits what programs have left in outboxes, in databases that are not Gnomon's."""

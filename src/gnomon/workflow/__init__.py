"""Workflows, purely: graphs of nodes, their rules, and how a run of one goes on."""

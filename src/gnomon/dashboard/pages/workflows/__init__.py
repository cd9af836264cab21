"""Pages of workflows and their runs."""

"""Values of stores of tasks, cron jobs and workflows."""

"""When recurring jobs fire: cron expressions and intervals, exact across clock changes."""

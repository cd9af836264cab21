-- events: an event, and who has taken note of it.
id, kind, at, cron_job_id, task_id, detail, acknowledged_at, acknowledged_by, note

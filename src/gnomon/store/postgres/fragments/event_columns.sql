-- events: an event, and who has taken note of it.
tenant_id, id, kind, at, cron_job_id, task_id, detail, number, acknowledged_at, acknowledged_by, note

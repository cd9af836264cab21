-- Whether any run waits for another one of its job.
SELECT EXISTS (SELECT FROM gnomon.task WHERE state = 3 AND cron_job_id IS NOT NULL) AS found

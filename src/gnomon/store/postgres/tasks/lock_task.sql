-- One live task, to be changed: nobody else can claim, settle or change it until the transaction
-- ends. Waits for a settlement that is under way; what that settled is then no longer here.
SELECT
    {carried}, state, due_at, started_at, attempt, retries_left, losses, cancel_requested, flow,
    gnomon.is_by_handler(target) AS by_handler,
    (SELECT gnomon.now()) AS now
FROM gnomon.task
WHERE tenant_id = $1 AND id = $2
FOR UPDATE

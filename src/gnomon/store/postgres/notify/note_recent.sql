-- Remember the last notifications of subscriptions: $1 subscriptions, $2 tasks, $3 how many.
INSERT INTO gnomon.subscription_inbox AS i (subscription_id, inbox, recent)
SELECT n.subscription_id, '{}', ARRAY[n.task_id]
FROM unnest($1::uuid[], $2::uuid[]) AS n (subscription_id, task_id)
WHERE EXISTS (SELECT FROM gnomon.subscription AS s WHERE s.id = n.subscription_id)
ORDER BY n.subscription_id
ON CONFLICT (subscription_id) DO UPDATE SET recent = (excluded.recent || i.recent)[1:$3::integer]

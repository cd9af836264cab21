DROP VIEW gnomon.try;
DROP TABLE gnomon.chore, gnomon.node, gnomon.idempotency, gnomon.execution, gnomon.task_payload,
    gnomon.task_archive, gnomon.task;
DROP FUNCTION gnomon.now();

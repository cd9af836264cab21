DROP TABLE gnomon.task_type, gnomon.api_key, gnomon.tenant, gnomon.revision;
DROP FUNCTION gnomon.revise();

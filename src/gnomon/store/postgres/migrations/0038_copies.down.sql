DROP TABLE gnomon.task_copy;

ALTER TABLE gnomon.task VALIDATE CONSTRAINT label_is_not_empty;

ALTER TABLE gnomon.task ADD CONSTRAINT label_is_not_empty CHECK (label <> '') NOT VALID;

ALTER TABLE gnomon.task ADD COLUMN label text;

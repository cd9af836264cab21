-- The origin of a task: its correlation id, and the context of its trace where that is sampled (see
-- gnomon.model.origin). Most tasks have none, and the version before neither reads nor writes it.
ALTER TABLE gnomon.task ADD COLUMN origin json;

-- What tasks of a type have where their submission says nothing, as it was written. A type without a
-- schema has the one that every payload satisfies: so the version before can read it, too.
ALTER TABLE gnomon.task_type ADD COLUMN defaults json;

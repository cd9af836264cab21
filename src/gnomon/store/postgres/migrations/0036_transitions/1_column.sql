-- Whether the transitions of a task are logged: as its task type says when the task is stored. The
-- version before neither reads nor writes it, so the tasks that it stores are not logged.
ALTER TABLE gnomon.task ADD COLUMN log_transitions boolean NOT NULL DEFAULT false;

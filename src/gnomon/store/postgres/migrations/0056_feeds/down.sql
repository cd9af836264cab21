DROP TRIGGER IF EXISTS note_dead_outcome ON gnomon.task;
DROP TRIGGER IF EXISTS note_gone_outcome ON gnomon.task;
DROP FUNCTION IF EXISTS gnomon.note_dead_outcome();
DROP FUNCTION IF EXISTS gnomon.note_gone_outcome();
DROP FUNCTION IF EXISTS gnomon.note_outcome(
    text, uuid, text, smallint, integer, bigint, timestamptz, text
);
DROP TABLE IF EXISTS gnomon.feed_note;
DROP SEQUENCE IF EXISTS gnomon.feed_place;
DROP TABLE IF EXISTS gnomon.feed;

-- Outcomes that wait would be lost without a word.
DO $$
BEGIN
    IF to_regclass('gnomon.feed_note') IS NOT NULL THEN
        IF EXISTS (SELECT FROM gnomon.feed_note) THEN
            RAISE EXCEPTION 'outcomes wait for feeds and would be lost'
                USING HINT = 'Wait until they are published, or remove their feeds: gnomon feeds rm NAME';
        END IF;
    END IF;
END
$$;
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

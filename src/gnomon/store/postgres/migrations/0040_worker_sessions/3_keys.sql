-- The queues that a key may work for; null: all.
ALTER TABLE gnomon.api_key ADD COLUMN queues text[];

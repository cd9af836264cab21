-- Look again behind the cursors, for rows that committed late, were written by plain SQL, or
-- became waiting again: what a cursor alone would never see. See gnomon.read_behind.
SELECT * FROM gnomon.read_behind($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)

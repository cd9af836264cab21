-- One tenant, locked until the end of the transaction.
SELECT * FROM gnomon.tenant WHERE id = $1 FOR UPDATE

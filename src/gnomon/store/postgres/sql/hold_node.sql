-- Keep a node from claiming until the end of the transaction; nothing where a claim is under way.
SELECT incarnation FROM gnomon.node WHERE incarnation = $1 FOR UPDATE SKIP LOCKED

-- Keep a node from claiming until the end of the transaction; nothing where a claim is under way. Its
-- lease cannot be renewed, nor can it be declared dead meanwhile: who falls silent is cut off.
SELECT incarnation, set_config('idle_in_transaction_session_timeout', '5s', true)
FROM gnomon.node WHERE incarnation = $1 FOR UPDATE SKIP LOCKED

-- A subscription by its id, whoever has it.
SELECT {subscriptions} FROM gnomon.subscription WHERE id = $1

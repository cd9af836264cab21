-- Write down what submissions are held to, for gnomon.submit: $1 the plans, $2 the largest payload, $3 for how
-- many seconds keys are kept. Nothing is written where it is so already.
UPDATE gnomon.submission_rules
SET plans = $1::json, payload_bytes = $2, idempotency_seconds = $3
WHERE (plans::jsonb, payload_bytes, idempotency_seconds)
    IS DISTINCT FROM ($1::json::jsonb, $2::bigint, $3::float8)

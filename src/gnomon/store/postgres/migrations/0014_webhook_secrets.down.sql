DROP TRIGGER make_webhook_secret ON gnomon.tenant;
DROP FUNCTION gnomon.make_webhook_secret();
DROP FUNCTION gnomon.new_webhook_secret();
DROP TABLE gnomon.webhook_secret;

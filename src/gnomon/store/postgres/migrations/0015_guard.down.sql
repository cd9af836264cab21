ALTER TABLE gnomon.tenant DROP COLUMN targets_allow;
ALTER TABLE gnomon.revision DROP COLUMN authentication;

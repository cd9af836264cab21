DROP SEQUENCE gnomon.recalls;

DROP TABLE gnomon.session;

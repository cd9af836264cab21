DROP TABLE gnomon.trouble;

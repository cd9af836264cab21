DROP TABLE gnomon.activity;

DROP TABLE gnomon.breaker;

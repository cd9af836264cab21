DROP TABLE gnomon.limiter;

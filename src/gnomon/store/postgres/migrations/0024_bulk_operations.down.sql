DROP TABLE gnomon.bulk_operation;

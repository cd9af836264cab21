DROP TABLE gnomon.saved_view;

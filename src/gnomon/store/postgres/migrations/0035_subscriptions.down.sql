DROP TABLE gnomon.confirmation_sent, gnomon.subscription_cursor, gnomon.subscription_inbox, gnomon.subscription;

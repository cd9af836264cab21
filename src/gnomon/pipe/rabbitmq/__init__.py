"""RabbitMQ as a meeting place: each end has an exclusive queue, which ends with its connection. A
message is mandatory and confirmed, so whoever sends learns whether there is such an end."""

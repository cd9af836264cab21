-- The numbers of the events that are kept: above `forgotten`, up to `last`.
SELECT forgotten, last FROM gnomon.event_order

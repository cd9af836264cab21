"""Redis (or Valkey) as a meeting place: channels of pub/sub, which store nothing. Whoever publishes
learns whether anybody listens, and whoever waits for an answer asks every second whether the other
end still does."""

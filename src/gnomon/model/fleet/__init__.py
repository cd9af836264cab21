"""The fleet: shards, pools, room in the database, and the tenants that share them."""

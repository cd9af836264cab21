-- How often what processes remember about tenants has changed, and whether authentication is on.
SELECT number, authentication FROM gnomon.revision

-- Counts how often tasks were taken back that a node had claimed ahead of their time. A sequence, and not
-- a row: others see a number at once that a transaction has drawn, before it ends.
CREATE SEQUENCE gnomon.recalls;
GRANT USAGE ON SEQUENCE gnomon.recalls TO gnomon_tenant;

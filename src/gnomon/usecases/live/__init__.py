"""What pages that are open look at: whether something changed, and reads that they share."""

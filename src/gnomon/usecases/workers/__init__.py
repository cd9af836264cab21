"""What remote workers may ask."""

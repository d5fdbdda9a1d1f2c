"""What became of changes that were tried."""

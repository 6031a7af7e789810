"""What capture costs, measured against the same jobs without it."""

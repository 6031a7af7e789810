"""The graph store in a lake: one table of Delta Lake, in a folder or on object storage."""

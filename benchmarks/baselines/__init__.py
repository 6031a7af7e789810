"""Other ways to the same lineage, to measure against."""

"""Rows of files: their positions, their texts, and whether the file is still the one that a job read or wrote."""

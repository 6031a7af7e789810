"""Rows of files: where they stand, what they say, and whether the file still is what a job read or wrote."""

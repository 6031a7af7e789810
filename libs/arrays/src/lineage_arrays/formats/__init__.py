"""Formats of files that hold arrays, each read by its own library, which is imported on use alone."""

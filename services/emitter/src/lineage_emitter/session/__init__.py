"""Capture of one SparkContext: its parts, and its beginning and end."""

"""A background process that keeps a Spark session for queries about rows of DataFrames, and ends by itself.

This package holds what clients need. The process (`lineage.background_process`) and its commands
(`lineage.background_commands`) are separate modules, as they use the clients, too.
"""

"""Captured RDDs on the driver: PySpark's methods over operators, sources and actions."""

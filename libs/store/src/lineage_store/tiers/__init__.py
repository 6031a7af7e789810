"""A database with a lake behind it, queried as one store."""

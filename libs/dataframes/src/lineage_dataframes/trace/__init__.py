"""Traces of rows by recipes, and the Spark sessions that compute them."""

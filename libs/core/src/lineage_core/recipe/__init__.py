"""Recipes: what a DataFrame action did, as data."""

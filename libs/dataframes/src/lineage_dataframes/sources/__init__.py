"""Sources of recipes: files, tables and databases as views whose rows know where they stand."""

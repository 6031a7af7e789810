"""Plans of recipes, rewritten so that each row says which rows it was made from."""

"""DataFrame and SQL work: each action is noted by a recipe, from which rows are traced later."""

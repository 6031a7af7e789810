"""DataFrame and SQL work: each action is recorded by a recipe, from which rows are traced later."""

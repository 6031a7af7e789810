"""How Kafka is used: settings, topics, errors and dead letters, for whoever sends, links, writes or looks."""

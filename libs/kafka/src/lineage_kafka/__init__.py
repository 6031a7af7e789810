"""How Kafka is used: settings, topics, errors and dead letters, for programs that send, link, write or read."""

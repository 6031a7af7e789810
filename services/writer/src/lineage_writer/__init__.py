"""The writer: bulk-loads blocks and linked edges from Kafka into Neo4j or a lake, exactly once."""

"""Ways for flow blocks and messages to leave the program: the spool, a folder, and Kafka.

Spark workers load of them what the settings request: confluent-kafka only for Kafka, pydantic never.
"""

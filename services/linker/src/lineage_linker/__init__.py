"""The linker: joins hashOut to hashIn of blocks that come by Kafka, with its state in Redis."""

"""The graph store in Neo4j: many writers and readers, over the official driver."""

"""The published design: one event, one node and one link a record.

Written from its description, as well as we can: events in batches, an index for the links, no values
where they are not asked for. Every record at a capture point gets a hash; an event
``flowId;hashIn;hashOut;val`` says from which record it was made; each becomes a node in Neo4j, and
``apoc.periodic.iterate`` links those whose ``hashOut`` is another's ``hashIn`` once all are there.

``capture`` stands for SparkContext and RDD inside the job (``combining`` is its shuffle, ``point`` a
capture point in a task), ``sender`` sends, ``consumer`` loads, ``graph`` links and asks, ``expected``
counts by plain Python, ``row`` measures.
"""

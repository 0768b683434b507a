"""Which tools fit a query."""

QUERY_LENGTH = 1000
"""Characters of a query that are looked at; a longer one is text that was pasted."""

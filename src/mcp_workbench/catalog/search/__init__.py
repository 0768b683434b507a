"""Full-text search: finds the tools that match a query."""

QUERY_LENGTH = 1000
"""Characters of a query that are read; longer ones are pasted text."""

"""Full-text search: finds the tools that match a query.

Others import `finder`, which searches a router's catalog; its other modules are private.
"""

QUERY_LENGTH = 1000
"""The most characters of a query that are read; a longer query is pasted text."""

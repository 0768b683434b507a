"""Which tools fit a query."""

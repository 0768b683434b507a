"""Remote servers: streamable HTTP in both eras, and the older HTTP with SSE."""

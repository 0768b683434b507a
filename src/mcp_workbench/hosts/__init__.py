"""Programs that start MCP servers: where their configurations are, what stands in them, and how they are changed."""

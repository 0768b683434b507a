"""What a person can try without a server of their own: five small MCP servers and a guided tour."""

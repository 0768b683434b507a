"""The workbench as an MCP server: sessions of clients, in either era, on any front."""

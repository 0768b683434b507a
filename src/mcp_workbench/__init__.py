"""One MCP server in front of many: toolboxes, opened when they are needed."""

__version__ = "0.11.0"

"""`mcp-workbench demo`: a guided tour with five small MCP servers, for people without a server of their own.

Others import `tour`. The servers run as programs and depend only on the wire code.
"""

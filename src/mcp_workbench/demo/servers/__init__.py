"""Real MCP servers over stdio, each a module to start with `python -m`.

They need no network and no files, and store nothing on disk.
"""

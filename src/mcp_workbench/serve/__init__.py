"""The workbench as an MCP server: sessions of clients in both eras, over stdio and HTTP.

Commands use `early_initialize`, `stdio`, and `http.listener` to serve. `http` builds on `endpoint`, `callers`,
`signals` and `config_watcher`. The other modules are private.
"""

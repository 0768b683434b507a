"""Channels to remote servers: streamable HTTP in both eras, and the older HTTP with SSE.

`servers.connector` imports `channel` when a remote server is first needed, since the HTTP library loads slowly. Other
packages use `authority`, `callback`, `credentials`, `login` and `oauth` to log in and out; the rest is private.
"""

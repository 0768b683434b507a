"""The cache of servers' lists on disk: by configured server and client capabilities, without secrets.

Others use `server_cache`, and `store` for its path. `entry` and `tables` are private. Import `tables` lazily: there are
Pythons without SQLite.
"""

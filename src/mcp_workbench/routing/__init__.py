"""Routing: one client's servers, their lists, and calls to them.

Surfaces and commands import `router`, `requests`, `server_handle` and the kinds of `server_lists`. The other modules
are private to the router.
"""

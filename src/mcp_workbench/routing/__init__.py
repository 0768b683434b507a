"""Routing: one client's servers, their lists, and calls to them.

Surfaces import `router`, `requests` and the kinds of `server_lists`; the other modules serve the router.
"""

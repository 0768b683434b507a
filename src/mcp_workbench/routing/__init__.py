"""Routing: the servers of one client, what they list, and the calls to them."""

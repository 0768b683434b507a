"""Connections to servers: processes, negotiation, one owner task each."""

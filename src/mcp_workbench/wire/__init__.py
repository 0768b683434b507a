"""JSON-RPC on the wire: framing, envelopes, a symmetric peer, and the `Exchange` that links clients to servers.

Every other package may import any of its modules; it imports neither clients nor servers.
"""

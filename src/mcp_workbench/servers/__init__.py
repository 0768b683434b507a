"""Connections to servers: starting them, negotiating the protocol, and forwarding requests.

Other packages use `supervisor` (one server, started when needed), `connection` and `subscriptions` (the open
connection), `connector` (how to open a channel), `health`, `processes`, `listing`, and the value types of `base` and
`negotiate`. The other modules are private to this package. `http` holds the remote transports.
"""

"""Surfaces: the lists that a client sees, and the methods that it can call.

`serve` uses `base` (the contract), one of the surfaces `proxy`, `dynamic`, `toolbox` and `server`, `server_info`,
which has the answer to the first request, and `failures`, which turns errors into results and JSON-RPC errors. Commands
use `descriptions`, `open_response` and `arguments` to show what a model reads. The other modules are private.
"""

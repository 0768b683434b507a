"""Messages on a wire: framing, envelopes, a symmetric JSON-RPC peer, and the seam above it."""

"""Standard input and output, taken for the protocol alone: whatever a library prints goes elsewhere."""

from __future__ import annotations

import os


def claim_standard_streams() -> tuple[int, int]:
    """Our own descriptors for the client; 0 becomes /dev/null and 1 becomes stderr."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):  # one that was closed is as good as /dev/null
        try:
            os.fstat(standard)
        except OSError:
            os.dup2(nothing, standard)
    source, sink = os.dup(0), os.dup(1)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return source, sink

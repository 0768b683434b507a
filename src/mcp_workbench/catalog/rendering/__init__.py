"""How a tool is shown: whole, as one line, or by its first sentence; and what that costs in tokens."""

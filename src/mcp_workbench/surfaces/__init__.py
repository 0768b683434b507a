"""What a client sees: which tools are listed, and what a call of one means."""

"""The command line: one module per command. `serve` starts without the toolkit that the others use."""

"""The workbench over HTTP. `serve` over stdio imports nothing of it."""

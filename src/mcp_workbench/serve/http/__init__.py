"""Serves MCP clients over HTTP, in both protocol eras, on starlette and uvicorn.

Others import `address` and `tokens` to read the options of `serve --http`, and `listener` to serve. `serve` over stdio
imports nothing from here.
"""

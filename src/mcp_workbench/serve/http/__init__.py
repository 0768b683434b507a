"""The workbench over HTTP, on the official SDK's transport. Nothing of it is imported by `serve` over stdio."""

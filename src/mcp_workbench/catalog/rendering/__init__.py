"""Renders definitions for clients: whole, as a one-line signature, or as a first sentence, within a token budget."""

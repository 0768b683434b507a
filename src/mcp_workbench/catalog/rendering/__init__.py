"""Renders definitions for clients: in full, as a one-line signature, or as a first sentence, within a token budget.

Others import `render` for entries, `signature` for signatures, `budget` for token estimates, and `schemas`,
`references` and `notes` to read schemas.
"""

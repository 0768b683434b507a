"""JSON with comments and trailing commas: `parser` reads it with positions; `edit` and `transfer` change its text.

Every module may be imported from outside. None of them knows what a configuration is.
"""

"""The catalog: the definitions that servers listed, filtered, repaired if necessary, and rendered for clients.

Others use `definition` (one definition), `snapshot` (lists and the catalog of a client), `skills`, `linked_resources`
and `output_schemas`, and the packages `cache` (lists on disk), `rendering` and `search`. `repair` and `official_models`
are private.
"""

"""The record of what running workbenches do: a small local file that `status` and `logs` read.

Processes that serve import `recorder`; commands import `reading`, `batch` and the path from `writer`. The other modules
are private. The package imports neither clients nor servers.
"""

"""The files of MCP hosts: finds them, reads their servers and restrictions, and installs the workbench in them.

`registry` lists the hosts, `discovery` reads their servers, `import_plan` plans an import, `installation` changes a
file and restores it, `workbench_entry` builds the entry. Other packages import these, and `files`, `secrets`,
`restrictions` and `variables`; `conversion`, `documents` and `toml_edit` are internal.
"""

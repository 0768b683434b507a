"""The configuration file: `locate` finds it, `load` reads it, and `model` holds the result as frozen values.

    load ─┬─ jsonc        parses the text, with a position for every value
          ├─ fields       typed access to the values, checked against keys
          ├─ keys         every key of the file, as data
          └─ servers      one entry of mcpServers; environment expands ${VAR}

`diff` compares two configurations, `raw_entries` reads entries as written, `secret_patterns` recognizes secrets,
and `schema` builds the JSON Schema. Other packages may import every module. The package itself imports nothing, so
that code which needs only the model does not pay for the rest.
"""

"""The configuration: found (`locate`), read (`load`), and frozen (`model`).

    load ─┬─ source   the bytes of the file, and line and column of every offset
          ├─ jsonc    tokens and a tree with positions, nothing lost
          ├─ fields   typed values, checked against keys
          ├─ keys     every key of the file, once, as data
          └─ servers  one entry of mcpServers, with expand for ${VAR}

`schema` builds the JSON Schema from `keys`. Import `load_config` from `config.load`: this package
imports nothing by itself, so that those who need only the model pay for nothing else.
"""

"""The command line: one module per command, with `HELP` and `run`.

`commands.py` declares the commands and `options.py` their options; `parser.py`, `help_text.py` and `completion.py` read
both. Nothing outside of the package imports it except `__main__`, which uses `parser` and `terminal`.
"""

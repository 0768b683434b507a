"""Examines servers and their configuration, and returns findings as values.

`config_checks` examines the file without starting anything, `examination` starts and examines every server (`probe`
one of them), and `environment_trial` finds the variables that a server needs. `recognition` and `descriptions` judge
what a server is for. Other packages may import every module; none of them prints anything.
"""

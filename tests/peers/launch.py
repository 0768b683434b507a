"""Runs a peer of this folder as a module: `launch.py whole_server ERA NAME`.

Python keeps the bytecode of modules and not of scripts, and the large peers are started many hundred times.
"""

import importlib
import sys

importlib.import_module(sys.argv.pop(1)).main()

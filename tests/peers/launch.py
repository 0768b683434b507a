"""Runs a peer of this folder as a module: `launch.py whole_server ERA NAME`.

Python keeps the bytecode of modules and not of scripts, and the large peers are started many hundred times.
"""

import importlib
import sys

sys.path.insert(0, __file__.rpartition("/")[0])  # also where something else runs this file
importlib.import_module(sys.argv.pop(1)).main()

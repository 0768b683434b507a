"""Files of one user on disk: private files, SQLite databases, and the list of trusted projects.

Other packages may import all of its modules. Each database belongs to the package that defines its tables.
"""

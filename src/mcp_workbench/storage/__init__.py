"""Files of this user that survive a restart: private by mode, locked, replaced whole; and SQLite on top of them."""

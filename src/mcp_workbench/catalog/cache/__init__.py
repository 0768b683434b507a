"""What is remembered of the lists of servers: on disk, by what it belongs to, without what may not be written."""

"""Text processing: sanitizes and redacts untrusted text, suggests names, shortens tracebacks.

Every other package may import all of its modules; it imports none of them.
"""

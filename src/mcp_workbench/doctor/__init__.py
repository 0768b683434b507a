"""Examining servers and what is written of them: what is found is values, and how it is shown is not known here."""

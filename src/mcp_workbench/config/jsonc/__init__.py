"""JSON with comments and trailing commas: parsed with positions, and edited without losing a character."""

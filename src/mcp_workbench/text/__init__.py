"""Text from strangers made safe to show: escaped, redacted, shortened, and compared for "Did you mean"."""

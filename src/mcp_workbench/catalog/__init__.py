"""What tools there are: definitions as their servers sent them, chosen by filters, ready to be shown."""

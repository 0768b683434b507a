"""What running workbenches do, kept for people in a small local file. It knows neither servers nor clients."""

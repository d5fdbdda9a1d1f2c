"""One module for each kind of place."""

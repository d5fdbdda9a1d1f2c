"""One module for each recording format; each registers itself."""

"""One module for each kind of lane; each registers itself."""

"""The fixes, those of one family in one module; each registers itself."""

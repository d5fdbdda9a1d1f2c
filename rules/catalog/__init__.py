"""The rules, those of one family in one module; each registers itself."""

"""The changes that can be tried, those of one family in one module."""

"""The start page: samples, recent files, what can be opened."""

"""SQLite files as recordings: opened without touching them, and read in columns."""

"""Writes recordings in other formats: Chrome JSON, and tables as CSV or Parquet; what is left out is said."""

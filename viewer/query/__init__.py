"""Questions to a recording in SQL, answered by DuckDB over the model's own columns; no Qt, and no file is touched."""

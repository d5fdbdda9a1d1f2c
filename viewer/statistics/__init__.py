"""The numbers behind the tables, as pandas frames and numpy arrays; no Qt."""

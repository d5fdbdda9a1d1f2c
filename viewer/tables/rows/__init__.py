"""Tables with one row for each thing that was recorded or found; one module a table."""

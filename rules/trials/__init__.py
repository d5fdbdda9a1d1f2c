"""Changes that were made in a running program, block by block: what each gave, and what became of the result."""

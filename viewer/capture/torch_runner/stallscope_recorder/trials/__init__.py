"""Changes made in a running script and taken back, block by block, to measure what each of them gives."""

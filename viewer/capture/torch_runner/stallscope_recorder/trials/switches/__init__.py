"""Settings that can change between two steps of one process, one module each."""

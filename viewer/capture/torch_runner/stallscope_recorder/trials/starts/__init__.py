"""Settings that are fixed when the script starts, one module each."""

"""Where the CPU's time goes: operators, loading, samples, and waiting for Python's lock."""

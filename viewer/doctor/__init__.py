"""Whether this machine opens recordings of all sizes as it should: made-up ones, opened in every way, within limits."""

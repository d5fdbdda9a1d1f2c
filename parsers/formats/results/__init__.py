"""Benchmarks, load tests and summaries: results rather than recordings."""

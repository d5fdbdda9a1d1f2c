"""Traces of Proton, Triton's profiler: its events as columns, and what they are on a timeline."""

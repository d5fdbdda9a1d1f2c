"""Profiles of Proton, Triton's profiler."""

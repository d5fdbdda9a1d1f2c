"""Perfetto's binary traces: slices, counters and tracks, as Perfetto's SDK and ROCm's recorders write them."""

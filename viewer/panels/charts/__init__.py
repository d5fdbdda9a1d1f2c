"""Drawings: bars, heat map, histogram, icicle, roofline and the flow of memory; they know numbers, not documents."""

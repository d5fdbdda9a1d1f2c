"""Drawings: bars, heat map, histogram, icicle, roofline and the flow of memory; they follow no document."""

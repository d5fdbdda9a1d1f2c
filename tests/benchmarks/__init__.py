"""Measurements of the whole program, as ratios to a floor that is taken in the same run."""

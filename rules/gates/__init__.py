"""Gates: what one run costs in figures that can be kept, limits on what may get worse, and what a gate answers."""

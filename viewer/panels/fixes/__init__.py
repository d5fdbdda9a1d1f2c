"""What if: fixes to tick, what they give, and how far that can be trusted."""

"""Two recordings side by side: may they be compared, and what changed."""

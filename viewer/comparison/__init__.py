"""Two recordings side by side: timelines on one axis, where the time went, and tables of what changed."""

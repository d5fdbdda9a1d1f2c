"""The panels around the timeline: what a tab is, and the dock that shows the tabs."""

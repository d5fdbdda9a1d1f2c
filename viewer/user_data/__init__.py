"""What outlives a window: preferences, sessions, summaries of recent files."""

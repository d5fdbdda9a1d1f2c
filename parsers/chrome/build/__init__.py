"""From columns of events to a trace."""

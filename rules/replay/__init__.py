"""A recorded run as a graph of what waits for what, and how long it would take if something were different."""

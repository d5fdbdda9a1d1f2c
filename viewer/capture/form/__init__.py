"""The window that sets up, runs and watches a recording; of capture, it alone knows Qt."""

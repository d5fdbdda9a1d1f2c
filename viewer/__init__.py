"""The window, the command line and the recorder."""

"""The main window: toolbar, verdict, budget, search, commands, status bar."""

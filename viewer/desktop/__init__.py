"""How the desktop meets the program: file types, one running instance, dropped paths."""

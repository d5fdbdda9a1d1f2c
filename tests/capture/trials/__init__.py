"""Changes tried in running programs."""

"""What to change and how, once for the rules and fixes that advise it."""

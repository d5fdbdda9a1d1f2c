"""Changes that are tried in a running program: started, watched while they are measured, and reported."""

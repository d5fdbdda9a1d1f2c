"""Pages in a real browser: what the script does, what a recording cannot make it do."""

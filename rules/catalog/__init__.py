"""One module for each rule, named after the fault it finds; each registers itself."""

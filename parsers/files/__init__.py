"""Files as they lie: recognising, unpacking, private copies and folders; what a parser is."""

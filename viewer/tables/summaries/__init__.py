"""Tables that add rows up, for the analysed time or for any other span; one module a table."""

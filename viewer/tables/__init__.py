"""Everything that can be asked of a recording, as tables with units in the names of their columns; no Qt."""

"""Large recordings are read and analysed by a process of their own, so that the window always answers at once."""

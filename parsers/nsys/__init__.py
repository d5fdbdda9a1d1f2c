"""The parts of a Nsight Systems export: its database, its tables, and what each kind of row becomes."""

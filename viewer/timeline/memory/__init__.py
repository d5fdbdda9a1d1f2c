"""The lane that says what fills the memory of a GPU: its kinds stacked over time, and how they are painted."""

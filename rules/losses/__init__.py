"""A loss inside the analysed window, as rules tell it: how much, where, by whom, in how many steps."""

"""How each kind of lane and of counter is placed, folded, coloured and spoken of; found by importing every module."""

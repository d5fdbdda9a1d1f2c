"""How each kind of lane looks: one module a kind, found by importing every module of this package."""

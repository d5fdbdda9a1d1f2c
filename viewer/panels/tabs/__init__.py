"""The tabs of the bottom dock: one module a tab, found by importing every module of this package."""

"""The fixes, one file each."""

"""The commands of the command line, one module each, named after it; no Qt.

A module has ``declare``, which adds the command's parser with ``run`` as the default of that name.
"""

"""A folder that the target's own interpreter runs by path: ``python .../torch_runner OPTIONS -- script.py ARGS``.

It needs the standard library and torch only, Python 3.8 or newer, and nothing else of Stallscope.
"""

"""Runs of many ranks: each file reduced to a summary by a pool of processes or a cluster, and joined into one run."""

"""Several files as one run: which rank each is, how well their clocks agree, and one trace of all."""

"""The page: a run to look at, as one file or served, and to review."""

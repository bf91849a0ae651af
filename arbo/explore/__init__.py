"""The page of a run: a file that holds the whole run, to be read in a browser without a network."""

"""From neighbours to decisions: settings, tuning, estimates, and the tables of a run."""

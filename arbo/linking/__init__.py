"""From neighbours to links: settings, tuning, estimates, and the tables of a run."""

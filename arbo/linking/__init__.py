"""From neighbours to links: settings, tuning, and the tables of a run."""

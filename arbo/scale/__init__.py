"""One job in many processes: tasks over shards, whose results are parts of a work folder."""

"""What people decided: corrections, their agreement, what they do to documents and to the graph, and the review."""

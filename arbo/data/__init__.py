"""Documents and their mentions, entities and the knowledge base, and what gold annotations say is right."""

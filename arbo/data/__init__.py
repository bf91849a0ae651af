"""Documents, mentions, entities, the knowledge base, and gold annotations."""

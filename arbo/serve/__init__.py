"""The HTTP service: what it answers (`service`, `reconciliation`), its operations, and the web application."""

"""Rows of tables, such as those of knowledge graphs, that are one entity, and graphs with these rows merged."""

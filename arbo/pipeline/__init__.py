"""Pipelines of other libraries that contain arbo."""

"""What users hold: pipelines, their calls, and what they say about themselves."""

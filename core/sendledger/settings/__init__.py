"""Settings: one YAML file and a policy file, read with every scalar as text and typed by pydantic."""

"""The schema, as forward-only alembic revisions in raw SQL."""

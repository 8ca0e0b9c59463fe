"""The only room that speaks to Postgres: one statement per file in ``sql/``, one function per statement."""

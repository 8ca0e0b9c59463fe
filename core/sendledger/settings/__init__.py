"""Settings: one YAML file and a policy file, read with every scalar as text and typed by pydantic.

Start with :func:`sendledger.settings.load.load`; a channel's own block is typed by
:func:`sendledger.settings.validate.validate_block`.
"""

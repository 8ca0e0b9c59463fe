"""The ideas: words, fold, decisions, schedule, classification, tokens.

Pure: no I/O, no clock, no chance. Instants, keys and jitter come in as arguments, so that the same
rows give the same answer on every machine and in every year.
"""

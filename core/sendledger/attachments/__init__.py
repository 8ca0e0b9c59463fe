"""Attachments by reference: where files may lie, what they are known by, and how they are fetched.

The ledger holds a digest; the bytes stay where they are, and are held only while a message is written
and handed over.
"""

from sendledger.attachments.cache import Cache
from sendledger.attachments.faults import AttachmentFault, PlaceRefused, SchemeRefused, StoreAway
from sendledger.attachments.files import Files, Weight
from sendledger.attachments.names import clean_name
from sendledger.attachments.reference import (
    Reference,
    facts_text,
    identity_of,
    places_text,
    references_of,
)

__all__ = [
    "AttachmentFault",
    "Cache",
    "Files",
    "PlaceRefused",
    "Reference",
    "SchemeRefused",
    "StoreAway",
    "Weight",
    "clean_name",
    "facts_text",
    "identity_of",
    "places_text",
    "references_of",
]

"""Content: Mustache templates compiled to a splice, and the revision that names a set of them."""

from sendledger.content.compiled import CompiledContent, load_content, revision
from sendledger.content.errors import TemplateError, UnusableValue
from sendledger.content.template import CompiledTemplate, compile_template

__all__ = [
    "CompiledContent",
    "CompiledTemplate",
    "TemplateError",
    "UnusableValue",
    "compile_template",
    "load_content",
    "revision",
]

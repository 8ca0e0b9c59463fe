"""Messages written by one core: our splice beside combustache, and beside building an ``EmailMessage`` each.

A subject, a text of 2 kB and an HTML part, five variables each; once in ASCII, once with umlauts, once with a
section over a list. *render* is the three texts alone, *write* the octets as they leave. The
``EmailMessage`` is given texts that are rendered already.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

import combustache
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

from benchmarks.lines import Line, Options, middle, progress, read_options, say
from sendledger.content import CompiledContent, load_content
from sendledger.plugin import Addressee, Content, Secret, Writer
from sendledger_smtp.dkim import DkimSettings, DkimSigner
from sendledger_smtp.letterhead import Letterhead
from sendledger_smtp.message import compile_content

SPEC = {"subject": False, "text": False, "html": True}
TAIL = "Grade: {{grade}}, room {{room}}, teacher {{teacher}}, by {{due}}.\n"
SUBJECT = "{{name}}, {{grade}}, {{room}}, {{teacher}}: by {{due}}"
SECTION = "{{#grades}}* {{subject}}: {{mark}}\n{{/grades}}"
LINE = "A line of text that is of usual length, as it is in a letter.\n"
UMLAUTS = LINE.replace("usual", "üblicher")
VALUES = {
    "name": "Ann Neil",
    "grade": "B",
    "room": "12",
    "teacher": "Ms Blue",
    "due": "2026-04-01",
}
GRADES = [{"subject": f"Subject {n}", "mark": "B"} for n in range(8)]
EVENLY = {
    "ascii": (LINE, "", {}),
    "umlauts": (UMLAUTS, "", {}),
    "section": (LINE, SECTION, {"grades": GRADES}),
}

Act = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A content, and the values of one recipient."""

    name: str
    parts: Mapping[str, str]
    values: Mapping[str, Any]
    compiled: CompiledContent

    def addressee(self) -> Addressee:
        return Addressee(
            intent_key="1f" * 16,
            attempt_number=1,
            token="a" * 44,
            destination="pat@home.test",
            variables=self.values,
        )

    def writer(self, signer: DkimSigner | None = None) -> Writer:
        compiled = self.compiled
        content = Content(revision=compiled.revision_hex, parts=compiled.parts)
        head = Letterhead(
            sender="reports@school.test",
            sender_name="School",
            message_id_domain="school.test",
            signer=signer,
        )
        return compile_content(content, head, lambda: datetime(2026, 3, 2, tzinfo=UTC))


def letter(name: str) -> Letter:
    line, section, more = EVENLY[name]
    body = line * 30
    page = "".join(f"<p>{text}</p>\n" for text in body.splitlines())
    parts = {
        "subject": SUBJECT,
        "text": f"Dear parents of {{{{name}}}},\n{body}{section}{TAIL}",
        "html": f"<html><body><p>Dear parents of {{{{name}}}},</p>\n{page}{section}<p>{TAIL}</p></body></html>\n",
    }
    return Letter(
        name=name, parts=parts, values={**VALUES, **more}, compiled=load_content(parts, SPEC)
    )


def build(shown: Mapping[str, str]) -> bytes:
    """Return the message as the standard library makes it."""
    message = EmailMessage(policy=SMTP)
    message["From"] = "School <reports@school.test>"
    message["To"] = "pat@home.test"
    message["Subject"] = shown["subject"]
    message["Date"] = datetime(2026, 3, 2, tzinfo=UTC)
    message["Message-ID"] = "<1f@school.test>"
    message.set_content(shown["text"])
    message.add_alternative(shown["html"], subtype="html")
    return message.as_bytes()


def rates(acts: Mapping[str, Act], options: Options) -> dict[str, float]:
    """Return how often a second each was done, all of them in turns."""
    seconds = 0.5 if not options.quick else 0.05
    found: dict[str, list[float]] = {name: [] for name in acts}
    for _ in range(options.rounds):
        for name, act in acts.items():
            count, began = 0, time.perf_counter()
            while (passed := time.perf_counter() - began) < seconds:
                for _ in range(20):
                    act()
                count += 20
            found[name].append(count / passed)
    return {name: middle(each) for name, each in found.items()}


def measure(written: Letter, options: Options) -> None:
    templates = [combustache.Template(source) for source in written.parts.values()]
    shown = {name: part.render(written.values) for name, part in written.compiled.parts.items()}
    assert [template.render(written.values) for template in templates] == list(shown.values())
    writer, whom = written.writer(), written.addressee()
    found = rates(
        {
            "render": lambda: [p.render(written.values) for p in written.compiled.parts.values()],
            "combustache": lambda: [template.render(written.values) for template in templates],
            "write": lambda: writer.write(whom),
            "email_message": lambda: build(shown),
        },
        options,
    )
    for ours, theirs, must in (
        ("render", "email_message", "ratio >= 20"),
        ("render", "combustache", "ratio >= 1"),
        ("write", "email_message", "ratio >= 20"),
    ):
        say(
            Line(
                bench=f"rendering.{written.name}.{ours}.{theirs}",
                value=found[ours],
                versus=found[theirs],
                unit="1/s",
                must=must,
            )
        )


def signers() -> dict[str, DkimSigner]:
    keys: dict[str, RSAPrivateKey | Ed25519PrivateKey] = {
        "rsa2048": generate_private_key(public_exponent=65537, key_size=2048),
        "ed25519": Ed25519PrivateKey.generate(),
    }
    return {name: DkimSigner(_settings(key.private_bytes(*PEM))) for name, key in keys.items()}


PEM = (
    serialization.Encoding.PEM,
    serialization.PrivateFormat.PKCS8,
    serialization.NoEncryption(),
)


def _settings(key: bytes) -> DkimSettings:
    return DkimSettings(domain="school.test", selector="s1", key=Secret(key.decode()))


def measure_signing(written: Letter, options: Options) -> None:
    whom = written.addressee()
    writers = {"unsigned": written.writer()} | {n: written.writer(s) for n, s in signers().items()}

    def writing(writer: Writer) -> Act:
        return lambda: writer.write(whom)

    found = rates({name: writing(writer) for name, writer in writers.items()}, options)
    for name in ("rsa2048", "ed25519"):
        cost = 1e6 / found[name] - 1e6 / found["unsigned"]
        say(
            Line(
                bench=f"rendering.signing.{name}",
                value=found[name],
                versus=found["unsigned"],
                unit="1/s",
                note=f"a signature costs {cost:.0f} us",
            )
        )


def bench(options: Options) -> None:
    for name in EVENLY:
        progress(f"letters: {name}")
        measure(letter(name), options)
    progress("signatures")
    measure_signing(letter("ascii"), options)


if __name__ == "__main__":
    bench(read_options(__doc__))

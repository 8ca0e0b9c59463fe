"""The key ring: made once, private, and saying nothing of its keys."""

from __future__ import annotations

import json
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sendledger.keys import KeyRing, KeyRingError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "keys.json"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def purposes(ring: KeyRing) -> list[bytes]:
    own = [ring.intent_key_key, ring.recipient_key, ring.destination_key, ring.seal_key]
    return [*own, *ring.token_keys.values()]


def test_a_new_key_ring_is_private_and_alone_in_its_folder(path: Path) -> None:
    KeyRing.load_or_create(path)
    assert mode(path) == 0o600
    assert mode(path.parent) == 0o700
    assert list(path.parent.iterdir()) == [path]


def test_what_was_created_is_what_is_loaded(path: Path) -> None:
    made = KeyRing.load_or_create(path)
    for loaded in (KeyRing.load_or_create(path), KeyRing.load(path)):
        assert loaded == made
        assert purposes(loaded) == purposes(made)


def test_two_installations_share_nothing(tmp_path: Path) -> None:
    one, other = (KeyRing.load_or_create(tmp_path / name / "keys.json") for name in ("a", "b"))
    assert one.installation_id != other.installation_id
    assert not set(purposes(one)) & set(purposes(other))


def test_each_purpose_has_its_own_key_of_32_bytes(path: Path) -> None:
    keys = purposes(KeyRing.load_or_create(path))
    assert len(set(keys)) == len(keys) == 5
    assert {len(key) for key in keys} == {32}


def test_no_key_in_use_is_a_key_in_the_file(path: Path) -> None:
    ring = KeyRing.load_or_create(path)
    stored = path.read_text("utf-8")
    assert not any(key.hex() in stored for key in purposes(ring))


# HMAC-SHA256 as OpenSSL computes it, over sendledger/v1/intent-key and so on; the last under 0x11...
FIXED_SUBKEYS = [
    "9f6d841b076c07eb",
    "7598ee556c380cba",
    "3fc7321cf24787cf",
    "c85713ccb2c3bb52",
    "2926b098b6fa81a7",
]


def test_subkeys_never_change_between_releases(path: Path) -> None:
    """Stored fingerprints must stay findable: these digests are fixed for good."""
    path.parent.mkdir()
    document = {
        "format": 1,
        "installation_id": "00000000-0000-4000-8000-000000000000",
        "identity": "00" * 32,
        "tokens": {"current": 1, "keys": {"1": "11" * 32}},
    }
    path.write_text(json.dumps(document), "utf-8")
    path.chmod(0o600)
    assert [key.hex()[:16] for key in purposes(KeyRing.load(path))] == FIXED_SUBKEYS


def test_concurrent_first_starts_agree_on_one_key_ring(path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        rings = list(pool.map(lambda _: KeyRing.load_or_create(path), range(32)))
    assert len({ring.installation_id for ring in rings}) == 1
    assert list(path.parent.iterdir()) == [path]


def test_repr_shows_no_key(path: Path) -> None:
    ring = KeyRing.load_or_create(path)
    secrets = re.findall(r"[0-9a-f]{64}", path.read_text("utf-8"))
    assert len(secrets) == 2
    assert not any(secret in repr(ring) for secret in secrets)
    assert "\\x" not in repr(ring)


@pytest.mark.parametrize("shared", [0o640, 0o604, 0o620, 0o644])
def test_a_key_ring_others_can_reach_is_refused_with_its_remedy(path: Path, shared: int) -> None:
    KeyRing.load_or_create(path)
    path.chmod(shared)
    with pytest.raises(KeyRingError, match=re.escape(f"run chmod 600 {path}")) as caught:
        KeyRing.load_or_create(path)
    assert f"{shared:04o}" in str(caught.value)


def test_a_missing_key_ring_is_not_replaced_by_load(path: Path) -> None:
    with pytest.raises(KeyRingError, match="cannot be read"):
        KeyRing.load(path)
    assert not path.exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.touch()
    with pytest.raises(KeyRingError, match=re.escape(str(blocker / "state" / "keys.json"))):
        KeyRing.load_or_create(blocker / "state" / "keys.json")


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"identity": "00"},
        {"identity": None},
        {"installation_id": "somebody"},
        {"tokens": {"current": 2, "keys": {"1": "00" * 32}}},
        {"tokens": {"current": 0, "keys": {"0": "00" * 32}}},
        {"tokens": {"current": 256, "keys": {"256": "00" * 32}}},
        {"tokens": []},
    ],
)
def test_a_damaged_key_ring_is_refused_without_quoting_it(
    path: Path, change: dict[str, object]
) -> None:
    KeyRing.load_or_create(path)
    document = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(document | change), "utf-8")
    with pytest.raises(KeyRingError, match="not a key ring of format 1") as caught:
        KeyRing.load(path)
    assert document["identity"] not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe"])
def test_a_file_that_is_no_key_ring_is_refused(path: Path, content: bytes) -> None:
    KeyRing.load_or_create(path)
    path.write_bytes(content)
    with pytest.raises(KeyRingError, match=re.escape(str(path))):
        KeyRing.load(path)


def test_rotation_adds_a_current_token_key_and_keeps_everything_else(path: Path) -> None:
    before = KeyRing.load_or_create(path)
    after = before.rotate_token_key(path)
    assert after == KeyRing.load(path)
    assert (before.token_key_id, after.token_key_id) == (1, 2)
    assert after.token_keys[1] == before.token_keys[1] != after.token_keys[2]
    assert purposes(after)[:4] == purposes(before)[:4]
    assert after.installation_id == before.installation_id
    assert mode(path) == 0o600


def test_the_last_token_key_id_is_not_reused(path: Path) -> None:
    ring = KeyRing.load_or_create(path)
    document = json.loads(path.read_text("utf-8"))
    document["tokens"] = {"current": 255, "keys": {"255": "00" * 32}}
    path.write_text(json.dumps(document), "utf-8")
    with pytest.raises(KeyRingError, match="all 255"):
        KeyRing.load(path).rotate_token_key(path)
    assert ring.installation_id == KeyRing.load(path).installation_id

"""Read the settings file and the policy file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from sendledger.ledger.classification import Rule
from sendledger.settings.model import Settings
from sendledger.settings.policy import PolicySettings
from sendledger.settings.problems import SettingsError, problem
from sendledger.settings.resolve import Resolver
from sendledger.settings.validate import RawBlock, explain
from sendledger.settings.yaml_text import Block, at, read_yaml

_Model = TypeVar("_Model", bound=BaseModel)


def load(file: Path, env: Mapping[str, str]) -> tuple[Settings, PolicySettings]:
    """Return settings and policy, with the times of both divided by the policy's ``scale``.

    Raises :class:`SettingsError`, as :func:`load_settings` and :func:`load_policy`.
    """
    settings = load_settings(file, env)
    if settings.policy is not None and not settings.policy.exists():
        raise _no_policy(file)
    policy = load_policy(settings.policy)
    worker = divide_times(settings.worker, policy.scale)
    return _copy(settings, {"worker": worker}), policy


def load_settings(file: Path, env: Mapping[str, str]) -> Settings:
    """Return the settings in *file*, with secrets taken from *env* and files; no network, no database.

    Raises :class:`SettingsError` with every problem found.
    """
    return _load(Settings, file, env)


def load_policy(file: Path | None) -> PolicySettings:
    """Return the policy in *file*, or the defaults without one, its times divided by its ``scale``.

    Raises :class:`SettingsError` with every problem found. A policy holds no secrets.
    """
    policy = PolicySettings() if file is None else _load(PolicySettings, file, {})
    return divide_times(policy, policy.scale)


def divide_times(model: _Model, scale: float) -> _Model:
    """Return *model* with every duration in it divided by *scale*; what was set stays known as set."""
    if scale == 1:
        return model
    return _copy(model, {name: _divide(value, scale) for name, value in model})


def _divide(value: Any, scale: float) -> Any:
    match value:
        case timedelta():
            return value / scale
        case BaseModel():
            return divide_times(value, scale)
        case Rule():
            return dataclasses.replace(value, retry_floor=_divide(value.retry_floor, scale))
        case dict():
            return {key: _divide(item, scale) for key, item in value.items()}
        case tuple():
            return tuple(_divide(item, scale) for item in value)
    return value


def _copy(model: _Model, changes: Mapping[str, Any]) -> _Model:
    # model_copy would count every changed field as set by the user.
    values = {**dict(model), **changes}
    return type(model).model_construct(_fields_set=model.model_fields_set, **values)


def _load(model: type[_Model], file: Path, env: Mapping[str, str]) -> _Model:
    tree = read_yaml(file)
    resolver = Resolver(env=env, folder=file.parent)
    data = resolver.resolve(tree)
    root = RawBlock(data=data, node=tree, where=(), file=str(file), folder=file.parent)
    _keep_blocks_raw(root)
    try:
        typed = model.model_validate(data, context={"folder": file.parent})
    except ValidationError as error:
        raise SettingsError(
            [*resolver.problems, *explain(error, model, root)], file=str(file)
        ) from None
    if resolver.problems:
        raise SettingsError(resolver.problems, file=str(file))
    return typed


def _no_policy(file: Path) -> SettingsError:
    where = ("policy",)
    sentence = "there is no such file; name an existing one"
    return SettingsError(
        [problem(where, at(read_yaml(file), where).line, sentence)], file=str(file)
    )


def _keep_blocks_raw(root: RawBlock) -> None:
    """Wrap the block of each channel, whose plugin alone knows its model; none is an empty one."""
    channels = root.data.get("channels")
    for name, channel in channels.items() if isinstance(channels, dict) else ():
        block = channel.setdefault("settings", {}) if isinstance(channel, dict) else None
        if isinstance(block, dict):
            where = ("channels", name, "settings")
            node = at(root.node, where)
            empty = Block(entries={}, line=node.line)
            block_node = node if block and isinstance(node, Block) else empty
            channel["settings"] = dataclasses.replace(
                root, data=block, where=where, node=block_node
            )

"""Profiles: which models and data sets a run takes, and how much of them. A file of lib/publish/profiles/ each."""

import tomllib

from lib import CompanionError, paths


def read_profile(name):
    """The profile lib/publish/profiles/<name>.toml. It has the keys of mini.toml, no more and no fewer."""
    there = sorted(file.stem for file in paths.PROFILES.glob("*.toml"))
    if name not in there:
        raise CompanionError(f"There is no profile {name}: choose one of {', '.join(there)}, "
                             f"or add {_file(name)}.")
    profile = _parse(name)
    found, wanted = _keys(profile), _keys(_parse("mini"))
    for key in sorted(found - wanted):
        raise CompanionError(f"{_file(name)} has the unknown key {key}: remove it, or add it to mini.toml.")
    for key in sorted(wanted - found):
        raise CompanionError(f"{_file(name)} lacks the key {key}: take it over from mini.toml.")
    return profile


def _file(name):
    return f"lib/publish/profiles/{name}.toml"


def _parse(name):
    try:
        return tomllib.loads((paths.PROFILES / f"{name}.toml").read_text())
    except tomllib.TOMLDecodeError as error:
        raise CompanionError(f"{_file(name)} is not TOML: mend what is wrong there ({error}).") from None


def _keys(profile):
    """data, models.encoder, models.decoder, sizes.nsp_examples, ..."""
    keys = set()
    for key, value in profile.items():
        keys |= {f"{key}.{inner}" for inner in value} if isinstance(value, dict) else {key}
    return keys

"""Secrets in configuration snapshots: found by name, replaced by '[redacted]'."""

from __future__ import annotations

import json
import re
from typing import Any, Final

REDACTED: Final = "[redacted]"
MAX_DEPTH: Final = 32

# Names of settings and of header-like keys. 'tokenizer_path' and 'max_total_tokens' are none.
_NAME: Final = re.compile(
    r"(?:api_?keys?|secrets?|passw(?:or)?d|passphrase|credentials?|private_?key|access_?key(?:_?id)?"
    r"|authorization|bearer|cookie|(?:^|_)(?:auth|access|refresh|hf|api|bot|session)_?tokens?"
    r"|(?:^|_)token)$",
    re.IGNORECASE,
)
# Environment variables are redacted more broadly: their names follow no scheme.
_ENV_NAME: Final = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
# Switches and numbers of the engine's own variables ('SGLANG_..._TOKENS=4096') say no secret.
_ENV_PLAIN: Final = re.compile(r"(?i:true|false|yes|no|on|off|none|-?\d{1,9}(?:\.\d{1,9})?)?")
_FLAG: Final = re.compile(
    r"""(?P<flag>(?<![\w-])--?[\w-]{0,60}?(?:api[-_]?keys?|secret|passw(?:or)?d|passphrase|token"""
    r"""|credentials?|access[-_]?key|private[-_]?key)(?:[-_](?:key|id))?)(?P<gap>=|\s{1,8})"""
    r"""(?P<value>'[^']{0,4096}'|"[^"]{0,4096}"|[^\s'"]{1,4096})""",
    re.IGNORECASE,
)
_ASSIGNED: Final = re.compile(
    r"(?P<name>\b[A-Z0-9_]{0,60}(?:KEY|TOKEN|SECRET|PASSWORD)[A-Z0-9_]{0,60})="
    r"(?P<value>'[^']{0,4096}'|\"[^\"]{0,4096}\"|[^\s'\"]{1,4096})"
)
_FLAG_ALONE: Final = re.compile(
    r"--?[\w-]{0,60}?(?:api[-_]?keys?|secret|passw(?:or)?d|passphrase|token|credentials?"
    r"|access[-_]?key|private[-_]?key)(?:[-_](?:key|id))?",
    re.IGNORECASE,
)
_USER_INFO: Final = re.compile(r"(?<=://)[^/@\s'\"]{1,300}@")


def redact(name: str, value: Any, depth: int = 0) -> Any:
    """Return ``value`` of the setting ``name`` without secrets; maps and lists are searched."""
    if depth > MAX_DEPTH:
        return REDACTED
    if value is None or isinstance(value, bool):
        return value
    if _NAME.search(name) and (isinstance(value, str | list | dict)):
        return REDACTED if value else value
    if isinstance(value, dict):
        return {
            key: redact_variable(key, item) if name == "env_vars" else redact(key, item, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list):
        if value and all(isinstance(item, str) for item in value):
            return _redact_arguments(value)
        return [redact(name, item, depth + 1) for item in value]
    if isinstance(value, str):
        return _redact_text(value, depth)
    return value


def redact_variable(name: str, value: Any) -> Any:
    """Return an environment variable's value, or '[redacted]' if its name tells of a secret."""
    if isinstance(value, str):
        if _ENV_NAME.search(name):
            plain = name.startswith("SGLANG_") and _ENV_PLAIN.fullmatch(value)
            return value if not value or plain else REDACTED
        return _redact_text(value, 0)
    return redact(name, value)


def redact_command(text: str) -> str:
    """Return a command line with the values of secret flags and assignments replaced."""
    text = _FLAG.sub(lambda found: f"{found['flag']}{found['gap']}{REDACTED}", text)
    text = _ASSIGNED.sub(lambda found: f"{found['name']}={REDACTED}", text)
    return _USER_INFO.sub(f"{REDACTED}@", text)


def _redact_arguments(arguments: list[str]) -> list[str]:
    kept: list[str] = []
    for argument in arguments:
        if kept and _FLAG_ALONE.fullmatch(kept[-1]) and not argument.startswith("--"):
            kept.append(REDACTED)
        else:
            kept.append(redact_command(argument))
    return kept


def _redact_text(text: str, depth: int) -> str:
    if text.lstrip()[:1] in ("{", "["):
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            return redact_command(text)
        clean = redact("", document, depth + 1)
        return text if clean == document else json.dumps(clean, ensure_ascii=False)
    return redact_command(text)

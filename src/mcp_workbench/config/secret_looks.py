"""What secrets are called, and what those of known services look like: the one list of both.

`doctor` warns only about what certainly is a secret. `import` and `add` also treat what may be one as a secret: a false
alarm costs one variable too many, a miss leaks a secret.
"""

from __future__ import annotations

import re
from typing import Final

# Repetitions that may fail after a long way are bounded: somebody else may have written the file.
KNOWN: Final = re.compile(
    r"\b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}"  # GitHub
    r"|\bgithub_pat_[A-Za-z0-9_]{20,}"
    r"|\bglpat-[A-Za-z0-9_-]{16,}"  # GitLab
    r"|\bsk-[A-Za-z0-9_-]{16,}"  # OpenAI, Anthropic, and many that do as they do
    r"|\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}"  # Stripe
    r"|\bxox[a-z]-[A-Za-z0-9-]{10,}|\bxapp-[A-Za-z0-9-]{10,}"  # Slack
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"  # AWS
    r"|\bAIza[A-Za-z0-9_-]{30,}"  # Google
    r"|\bya29\.[A-Za-z0-9_-]{20,}"
    r"|\bnpm_[A-Za-z0-9]{30,}|\bpypi-[A-Za-z0-9_-]{30,}|\bhf_[A-Za-z0-9]{20,}"
    r"|\bdop_v1_[a-f0-9]{30,}|\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{30,}|\bSG\.[A-Za-z0-9_.-]{30,}"
    r"|\b(?:ntn|secret)_[A-Za-z0-9]{30,}|\blin_api_[A-Za-z0-9]{20,}|\btvly-[A-Za-z0-9-]{16,}|\bfigd_[A-Za-z0-9_-]{20,}"
    r"|\bATATT[A-Za-z0-9_=.-]{20,}|\bsntrys_[A-Za-z0-9_=+/-]{20,}|\b(?:nvapi|pplx)-[A-Za-z0-9_-]{20,}"
    r"|\b(?:ph[cx]|gsk|r8|rnd|sbp|vercel|whsec)_[A-Za-z0-9]{20,}|\bdckr_pat_[A-Za-z0-9_-]{20,}|\bBSA[A-Za-z0-9_-]{24,}"
    r"|\b(?:fc|key)-[a-f0-9]{24,}|\bpat-[a-z]{2}[0-9]-[a-f0-9-]{30,}"  # Firecrawl, Mailgun, HubSpot
    r"|\beyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]*"  # a JSON web token
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_TELLING_WORD: Final = re.compile(
    r"auth|authorization|cookie|credentials?|key|passphrase|passwd|pat|pwd"
    r"|.*(?:apikey|password|secret|token)"
)
_HARMLESS_WORD: Final = re.compile(
    r"public|file|path|dir|folder|url|uri|host|name|id|type|mode|prefix|length|size|version"
)
_SUSPICIOUS_WORD: Final = re.compile(
    r"o?auth|authorization|authentication|bearer|cookies?|creds?|dsn|pat|pwd|pin|session|sig|signature"
    r"|.*(?:keys?|pass(?:word|wd|phrase)?s?|secrets?|tokens?|credentials?)"
)


def names_secret(name: str) -> bool:
    """Whether a value of this name is a secret."""
    words = _words(name)
    is_one = any(_TELLING_WORD.fullmatch(word) for word in words)
    return is_one and not any(_HARMLESS_WORD.fullmatch(word) for word in words)


def may_name_secret(name: str) -> bool:
    """Whether a value of this name may be one."""
    return any(_SUSPICIOUS_WORD.fullmatch(word) for word in _words(name))


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]

"""What must never be indexed: names that hold secrets by convention, and texts that hold a key or a token.

A text is scanned whole, before it is cut, so a secret over the edge of a chunk is found. Only high-confidence kinds
refuse a text, since one match costs the whole file. Left out on purpose: passwords in connection URLs and JSON web
tokens (both are mostly examples in documentation), Stripe test keys and Twilio key ids (no secrets), and any secret
that is encoded or broken over lines. Every expression starts with a literal and repeats single characters, so that a
scan is linear.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import NamedTuple

# ---- names --------------------------------------------------------------------------------------------------------

REFUSED_NAME = "refused name"
_REASONS = (
    "",
    f"{REFUSED_NAME}: git's own data",
    f"{REFUSED_NAME}: environment file",
    f"{REFUSED_NAME}: private key or key store",
    f"{REFUSED_NAME}: credential file",
)
_KEY, _CREDENTIAL = _REASONS[3], _REASONS[4]

_BY_ENDING = dict.fromkeys(
    ("pem", "key", "p8", "p12", "pfx", "pkcs12", "jks", "jceks", "bks", "kdb", "kdbx", "keystore", "ppk", "agekey"),
    _KEY,
) | dict.fromkeys(("tfvars", "tfstate", "kubeconfig"), _CREDENTIAL)
#: How a name begins, or with ``$`` is; in lower case. One group a reason.
_COMMON = r"(\.git$)|(\.env)|(id_(?:rsa|dsa|ecdsa|ed25519))"
#: Credential files go by their own name: a folder called ``credentials`` is ordinary in a source tree.
_FILE = re.compile(
    rf"{_COMMON}|(credentials|secrets(?:\.|$)|kubeconfig$|terraform\.rc$|pgpass\.conf$|[._]netrc$"
    r"|\.(?:npmrc|pypirc|htpasswd|htdigest|pgpass|my\.cnf|mylogin\.cnf|git-credentials|gitcookies|dockercfg|s3cfg|boto"
    r"|vault-token|terraformrc)$|\.vault_pass)"
)
_FOLDER = re.compile(rf"{_COMMON}|((?:\.ssh|\.gnupg|\.aws)$)")
_JSON = re.compile(
    r"client_secret.*|gha-creds-.*|application_default_credentials\.json|(?:.*[-_.])?service[-_]?account.*|.*\.tfvars\.json",
    re.DOTALL,
)
#: Harmless names that are secret in their folder.
_IN_FOLDER = re.compile(r"(?:^|/)(?:\.docker/config\.json|\.kube/config)$", re.IGNORECASE)


def refused_name(path: str) -> str | None:
    """Why a tracked path is refused by its name, whatever its scope; ``None`` when it is not."""
    folder, _, name = path.rpartition("/")
    return refused_folder(folder) or refused_file_name(path, name) or None


def refused_folder(folder: str) -> str:
    """Why everything below this folder is refused; empty when it is not."""
    for part in folder.casefold().split("/"):
        # Trailing blanks and dots vanish on some systems, so they do not make another name.
        name = part.rstrip(" .")
        match = _FOLDER.match(name)
        if match:
            return _REASONS[min(match.lastindex or 3, 3)]
        _, dot, ending = name.rpartition(".")
        if dot and _BY_ENDING.get(ending) == _KEY:
            return _KEY
    return ""


def refused_file_name(path: str, name: str) -> str:
    """Why a file is refused by its own name (the last part of ``path``); empty when it is not."""
    lowered = name.casefold()
    if lowered.endswith((" ", ".")):
        lowered = lowered.rstrip(" .")
    match = _FILE.match(lowered)
    if match:
        return _REASONS[match.lastindex or 4]
    stem, dot, ending = lowered.rpartition(".")
    if dot and ending in _BY_ENDING:
        return _BY_ENDING[ending]
    if ending == "json" and _JSON.fullmatch(lowered):
        return _CREDENTIAL
    if ending in ("config", "json") and _IN_FOLDER.search(path):
        return _CREDENTIAL
    return _CREDENTIAL if ".tfstate." in stem + "." and dot else ""


# ---- texts --------------------------------------------------------------------------------------------------------

PRIVATE_KEY = "private key"

_PEM_BEGIN = re.compile(r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
#: What may stand between a key's lines: blanks, escaped line ends, quotes, comment and diff marks.
_GAP = r"(?:\\{1,4}[nrt\n]|[\s\"'`+,>#*|/.-])"
#: Right behind the opening line: a gap, header lines (``Proc-Type: …``), and the key.
_PEM_BODY = re.compile(
    rf"{_GAP}{{0,60}}+(?:[A-Za-z][A-Za-z-]{{1,20}}: [^\n\\]{{0,200}}+{_GAP}{{1,60}}+){{0,6}}+([A-Za-z0-9+/=]{{16,}})"
)
#: The lines of a short block, made up or truncated: nothing but a key's characters.
_SHORT_LINES = re.compile(r"[A-Za-z0-9+/=]{6,}(?:\n[A-Za-z0-9+/=]+)*+")
_LINE_END = re.compile(r"\n|\\{1,4}n")
#: Code points between the lines of a block that counts as short: less than any real key has.
_SHORT_BLOCK = 200
_KEY_RUN = re.compile(r"[A-Za-z0-9+/]{40,}")
#: Code points; a 16,384-bit RSA key takes 12,700, and quotes and prefixes of its lines as much again.
_PEM_REACH = 25_000

#: A body of fewer different characters than this is a placeholder (``ghp_xxxx…``); a random one of 16 has far more.
_PLACEHOLDER_CHARACTERS = 4
#: Keys published in their owners' documentation: AWS examples end like this; the Azure storage emulator has one key.
_AWS_EXAMPLES = ("EXAMPLE", "EXAMPLEKEY")
_AZURE_EMULATOR = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class _Kind(NamedTuple):
    reason: str
    #: A text without this literal holds none of this kind.
    literal: str
    #: Begins with the literal; group 1 is the random part.
    pattern: re.Pattern[str]
    #: Whether a letter or digit in front makes it something else (``task-…`` is no ``sk-…``).
    bordered: bool


def _kind(reason: str, literal: str, rest: str, *, bordered: bool = True) -> _Kind:
    return _Kind(reason, literal, re.compile(re.escape(literal) + rest), bordered)


def _token(owner: str, literal: str, rest: str, *, bordered: bool = True) -> _Kind:
    return _kind(f"access token ({owner})", literal, rest, bordered=bordered)


_ALNUM, _WORD = "[A-Za-z0-9]", "[A-Za-z0-9_-]"
_END, _WORD_END = "(?![A-Za-z0-9])", "(?![A-Za-z0-9_-])"
_AWS_SECRET = r"[\"']?\s{0,4}[:=]>?\s{0,4}[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])"

_KINDS = (
    *(_token("AWS", prefix, rf"([A-Z0-9]{{16}}){_END}") for prefix in ("AKIA", "ASIA", "ABIA", "ACCA")),
    *(
        _token("AWS", name, _AWS_SECRET, bordered=False)
        for name in ("aws_secret_access_key", "AWS_SECRET_ACCESS_KEY", "ecretAccessKey")
    ),
    *(_token("GitHub", f"gh{letter}_", rf"({_ALNUM}{{36,}})") for letter in "pousr"),
    _token("GitHub", "github_pat_", r"([A-Za-z0-9_]{60,})"),
    *(
        _token("GitLab", f"gl{name}-", rf"({_WORD}{{20,}})")
        for name in ("pat", "dt", "rt", "ptt", "cbt", "soat", "ft", "imt", "agent", "oas")
    ),
    _token("Slack", "xox", r"[abeoprs](?:\.xox[bp])?-\d{1,14}-([A-Za-z0-9-]{20,})"),
    _token("Slack", "xapp-", r"\d-[A-Z0-9]{6,14}-\d{6,16}-([a-f0-9]{32,})"),
    _token(
        "Slack",
        "hooks.slack.com/",
        rf"(?:services|workflows|triggers)/[A-Z0-9]{{6,16}}/[A-Z0-9]{{6,16}}/({_ALNUM}{{20,}})",
    ),
    _token("Google", "AIza", rf"({_WORD}{{35}}){_WORD_END}"),
    _token("Google", "GOCSPX-", rf"({_WORD}{{28}}){_WORD_END}"),
    _token("Google", "ya29.", rf"({_WORD}{{40,}})"),
    *(_token("Stripe", f"{prefix}_live_", rf"({_ALNUM}{{16,}})") for prefix in ("sk", "rk")),
    _token("Stripe", "whsec_", r"([A-Za-z0-9+/]{32,})"),
    _token("Anthropic", "sk-ant-", rf"(?:[a-z]{{2,8}}\d{{2}}-)?({_WORD}{{40,}})"),
    _token("OpenAI", "sk-", rf"(?:proj|svcacct|admin|None)-({_WORD}{{20,}})"),
    _token("OpenAI or compatible", "sk-", rf"(?:or-v1-)?({_ALNUM}{{32,}})"),
    _token("npm", "npm_", rf"({_ALNUM}{{36}}){_END}"),
    _token("PyPI", "pypi-AgE", rf"({_WORD}{{50,}})"),
    _token("RubyGems", "rubygems_", r"([a-f0-9]{48})"),
    _token("Docker Hub", "dckr_", rf"(?:pat|oat)_({_WORD}{{20,}})"),
    _token("SendGrid", "SG.", rf"({_WORD}{{22}}\.{_WORD}{{43}}){_WORD_END}"),
    *(_token("DigitalOcean", f"do{letter}_v1_", r"([a-f0-9]{64})") for letter in "opr"),
    _token("Hugging Face", "hf_", rf"({_ALNUM}{{34,}})"),
    _token("Groq", "gsk_", rf"({_ALNUM}{{50,}})"),
    _token("Replicate", "r8_", rf"({_ALNUM}{{37}}){_END}"),
    _token("Azure", "AccountKey=", r"([A-Za-z0-9+/]{86}==)", bordered=False),
    _token("HashiCorp Vault", "hvs.", rf"({_WORD}{{24,}})"),
    *(_token("Shopify", f"shp{name}_", r"([a-fA-F0-9]{32})") for name in ("at", "ca", "pa", "ss")),
    _token("Telegram", ":AA", rf"(?<=\d{{8}}:AA)({_WORD}{{33}}){_WORD_END}", bordered=False),
    _token("Atlassian", "ATATT3", r"([A-Za-z0-9_=-]{100,})"),
    *(_token("Grafana", f"gl{name}_", r"([A-Za-z0-9+/=_]{32,})") for name in ("sa", "c")),
    _token("Linear", "lin_api_", rf"({_ALNUM}{{40,}})"),
    _token("Notion", "ntn_", rf"({_ALNUM}{{40,}})"),
    _kind(PRIVATE_KEY, "AGE-SECRET-KEY-1", r"([A-Z0-9]{58})"),
    _kind(PRIVATE_KEY, "b3BlbnNzaC1rZXktdjEA", r"([A-Za-z0-9+/]{40})", bordered=False),  # OpenSSH's, without its frame
    _kind(PRIVATE_KEY, "Private-Lines: ", r"\d{1,3}\s{1,4}([A-Za-z0-9+/]{40,})"),  # PuTTY
    _kind(PRIVATE_KEY, "PrivateKey", r"\s{0,4}=\s{0,4}([A-Za-z0-9+/]{43}=)", bordered=False),  # WireGuard
)

#: Changes whenever a rule about names or texts does: what was judged under other rules must be judged again.
RULES_DIGEST = hashlib.sha256(
    repr(
        [_BY_ENDING, _FILE, _FOLDER, _JSON, _IN_FOLDER, _PEM_BEGIN, _PEM_BODY, _KEY_RUN, _PEM_REACH]
        + [_SHORT_LINES, _LINE_END, _SHORT_BLOCK]
        + [_PLACEHOLDER_CHARACTERS, _AWS_EXAMPLES, _AZURE_EMULATOR]
        + [(kind.reason, kind.pattern.pattern, kind.bordered) for kind in _KINDS]
    ).encode()
).hexdigest()[:16]


def refused_text(text: str) -> str | None:
    """The kind of secret a whole text holds (never the secret), ``None`` when it holds none that is known."""
    if _holds_key_block(text):
        return PRIVATE_KEY
    return next((reason for _, _, reason in secret_spans(text)), None)


def secret_spans(text: str) -> Iterator[tuple[int, int, str]]:
    """``(start, end, kind)`` of every token and single-line key in the text, kind by kind."""
    for kind in _KINDS:
        if kind.literal not in text:
            continue
        for match in kind.pattern.finditer(text):
            start = match.start()
            if kind.bordered and start and text[start - 1].isalnum() and text[start - 1].isascii():
                continue
            body = match.group(1)
            if not _is_placeholder(body) and body != _AZURE_EMULATOR and not body.endswith(_AWS_EXAMPLES):
                yield start, match.end(), kind.reason


def _holds_key_block(text: str) -> bool:
    """A PEM or PGP private key: its opening line with a key behind it. The line alone, in prose or code, is none."""
    if "PRIVATE KEY" not in text:
        return False
    begins = list(_PEM_BEGIN.finditer(text))
    for begin, following in zip(begins, [*begins[1:], None], strict=False):
        body = _PEM_BODY.match(text, begin.end())
        if body and not _is_placeholder(body.group(1)):
            return True
        limit = min(len(text) if following is None else following.start(), begin.end() + _PEM_REACH)
        end = text.find("-----END", begin.end(), limit)
        if end < 0:
            continue
        if any(not _is_placeholder(run.group()) for run in _KEY_RUN.finditer(text, begin.end(), end)):
            return True
        short = text[begin.end() : end] if end - begin.end() <= _SHORT_BLOCK else ""
        if short and _holds_short_key(short):
            return True
    return False


def _holds_short_key(block: str) -> bool:
    """Whether what stands between the two lines of a short block is lines of a key and nothing else."""
    lines = [line for line in (re.sub(rf"^{_GAP}+|{_GAP}+$", "", one) for one in _LINE_END.split(block)) if line]
    return _SHORT_LINES.fullmatch("\n".join(lines)) is not None and not _is_placeholder("".join(lines))


def _is_placeholder(body: str) -> bool:
    return len(set(body.lower()) - {"-", "_", "="}) < _PLACEHOLDER_CHARACTERS

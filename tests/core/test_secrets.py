"""Names and texts that hold secrets. Fake tokens are put together at run time, so that no scanner finds one here."""

from __future__ import annotations

import random
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.secrets import refused_name, refused_text, secret_spans

_FAKE = random.Random(7)


def fake(length: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    """A random-looking body."""
    return "".join(_FAKE.choice(alphabet) for _ in range(length))


HEX, UPPER = "0123456789abcdef", string.ascii_uppercase + "234567"
BEGIN, END = "-----BEG" + "IN", "-----E" + "ND"

# ---- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (".git/config", "git's own data"),
        (".env", "environment file"),
        (".env.production", "environment file"),
        (".env.example", "environment file"),
        (".envrc", "environment file"),
        ("config/.ENV", "environment file"),
        (".env/readme.md", "environment file"),
        (".envs/.local/a.py", "environment file"),
        ("deploy/server.pem", "private key or key store"),
        ("deploy/SERVER.PEM", "private key or key store"),
        ("a.key", "private key or key store"),
        ("a.key ", "private key or key store"),
        ("a.p12", "private key or key store"),
        ("a.pfx", "private key or key store"),
        ("a.jks", "private key or key store"),
        ("a.kdbx", "private key or key store"),
        ("a.keystore", "private key or key store"),
        ("a.ppk", "private key or key store"),
        ("keys/id_rsa", "private key or key store"),
        ("keys/id_rsa.pub", "private key or key store"),
        ("id_ed25519_sk", "private key or key store"),
        ("id_dsa", "private key or key store"),
        ("id_ecdsa", "private key or key store"),
        ("home/.ssh/config", "private key or key store"),
        ("store.p12/notes.md", "private key or key store"),
        (".netrc", "credential file"),
        ("_netrc", "credential file"),
        (".npmrc", "credential file"),
        (".pypirc", "credential file"),
        (".htpasswd", "credential file"),
        (".pgpass", "credential file"),
        (".git-credentials", "credential file"),
        (".dockercfg", "credential file"),
        ("home/.docker/config.json", "credential file"),
        ("credentials", "credential file"),
        ("credentials.json", "credential file"),
        ("docs/credentials.md", "credential file"),
        ("src/credentials_provider.py", "credential file"),
        ("secrets.yaml", "credential file"),
        ("src/Secrets.py", "credential file"),
        ("prod.tfvars", "credential file"),
        ("prod.auto.tfvars.json", "credential file"),
        ("terraform.tfstate", "credential file"),
        ("terraform.tfstate.backup", "credential file"),
        ("kubeconfig", "credential file"),
        ("prod.kubeconfig", "credential file"),
        (".kube/config", "credential file"),
        ("service-account.json", "credential file"),
        ("my-service_account-1.json", "credential file"),
        ("client_secret_1.apps.json", "credential file"),
    ],
)
def test_names_that_hold_secrets_are_refused_with_their_kind(path: str, kind: str) -> None:
    assert refused_name(path) == f"refused name: {kind}"


@pytest.mark.parametrize(
    "path",
    [
        ".gitignore",
        ".github/workflows/ci.yml",
        "docs/environment.md",
        "docs/env.md",
        "src/keys.py",
        "monkey.py",
        "docs/pem.md",
        "a.key.md",
        "valid_rsa.py",
        "src/credentials/provider.py",
        "docs/secrets/rotation.md",
        "my_secrets.py",
        "secretsmanager.go",
        "docs/npmrc.md",
        "config.json",
        "docker/config.json",
        "accounts.json",
        "tfvars.md",
        "signature.asc",
        "",
    ],
)
def test_ordinary_names_are_not_refused(path: str) -> None:
    assert refused_name(path) is None


# ---- private keys ---------------------------------------------------------------------------------------------------


def pem(kind: str = "PRIVATE KEY", body: str | None = None, line_end: str = "\n") -> str:
    lines = [f"{BEGIN} {kind}-----", *(body or "\n".join(fake(64) for _ in range(4))).split("\n"), f"{END} {kind}-----"]
    return line_end.join(lines)


@pytest.mark.parametrize(
    "kind",
    [
        "PRIVATE KEY",
        "RSA PRIVATE KEY",
        "EC PRIVATE KEY",
        "DSA PRIVATE KEY",
        "OPENSSH PRIVATE KEY",
        "ENCRYPTED PRIVATE KEY",
    ],
)
def test_a_private_key_block_is_refused(kind: str) -> None:
    assert refused_text(f"# Setup\n\n{pem(kind)}\n") == "private key"


@pytest.mark.parametrize(
    "text",
    [
        pem(body="RkFLRSBLRVkgTk9UIFJFQUw="),
        pem("PGP PRIVATE KEY BLOCK", body=f"Version: GnuPG v2\nComment: x\n\n{fake(64)}"),
        pem("RSA PRIVATE KEY", body=f"Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,{fake(32, HEX)}\n\n{fake(64)}"),
        pem(line_end="\r\n"),
        pem(line_end="\\n"),
        pem(line_end="\\\\n"),
        pem(line_end="\n    "),
        pem(line_end="\n// "),
        pem(line_end="\n+"),
        pem(line_end='\\n" +\n  "'),
        "\n".join(f"    key.append('{line}')" for line in pem().split("\n")),
        f"{BEGIN} RSA PRIVATE KEY-----\n{fake(64)}",  # cut off
        pem(body="MIIEabc"),
        pem(body="MIIEabc\nZk9=", line_end="\n    "),
        f"---- BEG{'IN'} SSH2 ENCRYPTED PRIVATE KEY ----\nComment: x\n{fake(64)}\n",
        f"PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 8\n{fake(64)}\n",
        "AGE-SECRET-" + "KEY-1" + fake(58, UPPER),
        "b3BlbnNzaC1rZXkt" + "djEA" + fake(70),
        f"[Interface]\nPrivateKey = {fake(43)}=\n",
    ],
)
def test_a_private_key_is_found_in_many_dresses(text: str) -> None:
    assert refused_text(text) == "private key"


@pytest.mark.parametrize(
    "text",
    [
        f"The file begins with `{BEGIN} PRIVATE KEY-----` and is kept elsewhere.",
        f'if not pem.startswith("{BEGIN} RSA PRIVATE KEY-----"):\n    raise ValueError("not a key")',
        f"{BEGIN} PRIVATE KEY-----\n...\n{END} PRIVATE KEY-----",
        f"{BEGIN} PRIVATE KEY-----\n${{SERVER_KEY}}\n{END} PRIVATE KEY-----",
        pem(body="X" * 64),
        pem(body="your key here"),
        pem(body="<key>"),
        pem("PUBLIC KEY"),
        pem("CERTIFICATE"),
        "private key",
    ],
)
def test_talk_about_private_keys_is_not_refused(text: str) -> None:
    assert refused_text(text) is None


# ---- tokens ---------------------------------------------------------------------------------------------------------

TOKENS = {
    "AWS": ["AK" + "IA" + fake(16, UPPER), "AS" + "IA" + fake(16, UPPER), "aws_secret_" + f'access_key = "{fake(40)}"'],
    "GitHub": [*("gh" + f"{x}_{fake(36)}" for x in "pousr"), "github_" + f"pat_{fake(22)}_{fake(59)}"],
    "GitLab": ["gl" + f"pat-{fake(20)}"],
    "Slack": [
        "xo" + f"xb-{fake(12, string.digits)}-{fake(12, string.digits)}-{fake(24)}",
        "https://hooks.sl" + f"ack.com/services/T{fake(8, UPPER)}/B{fake(8, UPPER)}/{fake(24)}",
    ],
    "Google": ["AI" + f"za{fake(35)}"],
    "Stripe": ["sk_" + f"live_{fake(24)}", "rk_" + f"live_{fake(24)}"],
    "OpenAI": ["sk-" + f"proj-{fake(48)}"],
    "OpenAI or compatible": ["sk-" + fake(48)],
    "Anthropic": ["sk-" + f"ant-api03-{fake(93)}"],
    "npm": ["npm" + f"_{fake(36)}"],
    "PyPI": ["py" + f"pi-AgEIcHlwaS5vcmc{fake(80)}"],
    "SendGrid": ["S" + f"G.{fake(22)}.{fake(43)}"],
    "DigitalOcean": ["do" + f"p_v1_{fake(64, HEX)}"],
    "Hugging Face": ["h" + f"f_{fake(34)}"],
    "Azure": ["Account" + f"Key={fake(86)}=="],
    "Telegram": ["123456789" + f":AA{fake(33)}"],
}


@pytest.mark.parametrize(("owner", "token"), [(owner, token) for owner, tokens in TOKENS.items() for token in tokens])
@pytest.mark.parametrize("frame", ["{}", 'key = "{}"\n', "see ({}), then", "a={}&b"])
def test_an_access_token_is_refused_by_its_owner(owner: str, token: str, frame: str) -> None:
    reason = refused_text(frame.format(token))
    assert reason == f"access token ({owner})"
    assert token not in reason


def test_a_documented_example_key_is_not_a_secret_but_its_neighbour_is() -> None:
    stem = "AK" + "IA" + "IOSFODNN7"
    assert refused_text(f"Use key {stem}EXAMPLE here") is None
    assert refused_text(f"Use key {stem}EXAMPLA here") == "access token (AWS)"
    assert refused_text("aws_secret_" + "access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY") is None


def test_a_placeholder_is_not_a_secret_and_does_not_hide_one() -> None:
    placeholder, token = "gh" + "p_" + "x" * 36, "gh" + "p_" + fake(36)
    assert refused_text(placeholder) is None
    assert refused_text("gh" + "p_" + "0" * 36) is None
    assert refused_text(f"{placeholder} {token}") == "access token (GitHub)"


@pytest.mark.parametrize(
    "text",
    [
        "ghp" + "_short",
        "gh" + "p_" + fake(30),
        "task-" + fake(40),  # sk- inside a word
        "AK" + "IA" + fake(15, UPPER),
        "X" + "AK" + "IA" + fake(16, UPPER),
        "AK" + "IA" + fake(17, UPPER),
        "xoxb-your-token-goes-here-please",
        "sk_test_" + fake(24),
        "postgres://user:password@localhost/db",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0." + fake(43),
        "commit " + fake(40, HEX),
        "npm_config_registry_is_a_setting_with_a_long_name",
        "data:image/png;base64," + fake(400),
    ],
)
def test_what_only_looks_like_a_token_is_not_refused(text: str) -> None:
    assert refused_text(text) is None


def test_a_secret_over_the_edge_of_a_chunk_is_found_in_the_whole_text() -> None:
    assert refused_text("x" * 600 + "y" * 589 + " " + "AK" + "IA" + fake(16, UPPER) + " tail") == "access token (AWS)"


def test_spans_say_where_the_tokens_are() -> None:
    token = "gh" + "p_" + fake(36)
    assert list(secret_spans(f"a {token} b")) == [(2, 2 + len(token), "access token (GitHub)")]


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "-",
        "lorem ipsum ",
        f"{BEGIN} PRIVATE KEY-----",
        f"{BEGIN} PRIVATE KEY-----\nAa: b\nAa: b\nAa: b\n",
        f"{BEGIN} PRIVATE KEY-----" + "\\n" * 60,
        "AK" + "IA",
        "gh" + "p_aaaaaaaa",
        "sk-",
        "AI" + "za",
        "aws_secret_access_key=",
        "AccountKey=" + "A" * 85,
        "12345678:AA",
    ],
)
def test_a_mebibyte_made_to_be_slow_is_scanned_in_well_under_a_second(unit: str) -> None:
    text = unit * (2**20 // len(unit))
    started = time.process_time()
    refused_text(text)
    assert time.process_time() - started < 0.8


@given(st.text(max_size=300))
def test_any_text_is_judged_without_an_error(text: str) -> None:
    assert refused_text(text) is None or text

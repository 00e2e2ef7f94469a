"""Django settings. Everything a deployment changes comes from the environment (README, docs/operations.md)."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from ragproject.environment import Environment

BASE_DIR = Path(__file__).resolve().parent.parent
env = Environment()

# --- Where things live -----------------------------------------------------------------------------------------------

#: Everything written at run time: embedded database, mirrored repositories, the secret key of a development install.
RAG_DATA_DIR = Path(env.text("RAG_DATA_DIR", str(BASE_DIR / "var"))).expanduser().absolute()
#: Local repositories are read only below these folders; by default this checkout, so that the product can show itself.
RAG_REPOSITORY_ROOTS = env.folders("RAG_REPOSITORY_ROOTS") or [BASE_DIR]

# --- Django ----------------------------------------------------------------------------------------------------------

DEBUG = env.boolean("DJANGO_DEBUG", default=False)
ALLOWED_HOSTS = env.words("DJANGO_ALLOWED_HOSTS") or ["localhost", "127.0.0.1", "[::1]"]
CSRF_TRUSTED_ORIGINS = env.words("DJANGO_CSRF_TRUSTED_ORIGINS")


def secret_key() -> str:
    """The key from the environment, else one made once for this installation and kept below RAG_DATA_DIR (mode 600)."""
    given = env.text("DJANGO_SECRET_KEY")
    if given:
        return given
    path = RAG_DATA_DIR / "secret_key"
    try:
        RAG_DATA_DIR.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            # Written aside and linked: of two first processes exactly one key stands.
            draft = path.with_name(f"secret_key.{secrets.token_hex(8)}")
            draft.touch(mode=0o600)
            draft.write_text(secrets.token_urlsafe(50))
            try:
                path.hardlink_to(draft)
            except FileExistsError:
                pass
            finally:
                draft.unlink()
        return path.read_text()
    except OSError as error:
        raise ImproperlyConfigured(
            f"RAG_DATA_DIR ({RAG_DATA_DIR}) cannot be written: {error.strerror}. "
            "Set it to a folder that can, or set DJANGO_SECRET_KEY."
        ) from None


SECRET_KEY = secret_key()

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "rest_framework",
    "rest_framework.authtoken",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "procrastinate.contrib.django",
    "rag",
]

MIDDLEWARE = [
    # First, so that what other middleware fails at is plain too.
    "rag.web.middleware.PlainErrors",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "ragproject.urls"
WSGI_APPLICATION = "ragproject.wsgi.application"
ASGI_APPLICATION = "ragproject.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# --- Database --------------------------------------------------------------------------------------------------------


def databases() -> dict[str, dict[str, Any]]:
    """``default``, and ``replica`` where DATABASE_REPLICA_URL names one (searches go there)."""
    default = env.database("DATABASE_URL") or {
        "ENGINE": "ragproject.embedded_postgres",
        "NAME": "rag",
        "DATA_DIR": RAG_DATA_DIR / "postgres",
    }
    found = {"default": default}
    replica = env.database("DATABASE_REPLICA_URL")
    if replica:
        found["replica"] = {**replica, "TEST": {"MIRROR": "default"}}
    return found


DATABASES = databases()
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- Users, language, static files -----------------------------------------------------------------------------------

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "web:login"
LOGIN_REDIRECT_URL = "/"
LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "static/"
# The admin's own files are served straight from the packages: no collectstatic before the first page.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_HTTPONLY = True
#: Behind an HTTPS proxy: cookies over HTTPS only, and the proxy's scheme header is believed.
if env.boolean("DJANGO_BEHIND_HTTPS", default=False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True

# Throttles count in the database, so that several web processes share one limit.
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.db.DatabaseCache",
        "LOCATION": "rag_cache",
        "OPTIONS": {"MAX_ENTRIES": 100_000},
    }
}

# --- REST ------------------------------------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        # Token first: its WWW-Authenticate header makes an anonymous call a 401, not a 403.
        "rest_framework.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_PAGINATION_CLASS": "rag.api.pagination.RunsPage",
    "EXCEPTION_HANDLER": "rag.api.errors.handle",
    "DEFAULT_THROTTLE_RATES": {
        # Per user: a person or one agent asks a few questions a second at the very most.
        "search": env.rate("RAG_THROTTLE_SEARCH", "120/min"),
        "reindex": env.rate("RAG_THROTTLE_REINDEX", "30/min"),
        # Failed ones, per name and address: nobody misses their own password so often in an hour, and a guesser gets
        # through 480 a day, of which a password of eight characters is not afraid.
        "login": env.rate("RAG_THROTTLE_LOGIN", "20/hour"),
    },
    # Without a proxy in front the client's own address counts, never a header it can change.
    "NUM_PROXIES": env.integer("RAG_NUM_PROXIES", 0, least=0, most=10),
    "COERCE_DECIMAL_TO_STRING": False,
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Project knowledge search",
    "DESCRIPTION": "Hybrid search over a project's docs, decisions, sessions and code, with checkable citations.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {
        "Scope": "rag.api.requests.SCOPES",
        "Fusion": "rag.api.requests.FUSION_CHOICES",
        "ProjectState": "rag.models.ProjectState",
        "RunState": "rag.models.RunState",
    },
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    # The documentation page's files come with the installation, not from another host.
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
}

# --- Retrieval: read through rag.conf, which types them and says why each default is what it is -----------------------

RAG_EMBEDDING_PROVIDER = env.choice("RAG_EMBEDDING_PROVIDER", "ollama", ("ollama", "openai", "local"))
#: Empty: the provider's own default model.
RAG_EMBEDDING_MODEL = env.text("RAG_EMBEDDING_MODEL")
OLLAMA_BASE_URL = env.address("OLLAMA_BASE_URL", "http://127.0.0.1:11434")
OLLAMA_KEEP_ALIVE = env.duration("OLLAMA_KEEP_ALIVE", "30m")
OPENAI_BASE_URL = env.address("OPENAI_BASE_URL", "https://api.openai.com/v1")
OPENAI_API_KEY = env.text("OPENAI_API_KEY")

CHUNK_TARGET_CHARS = env.integer("CHUNK_TARGET_CHARS", 1200, least=200, most=8000)
CHUNK_OVERLAP_CHARS = env.integer("CHUNK_OVERLAP_CHARS", 150, least=0, most=4000)
CHUNK_BREAK_WINDOW = env.integer("CHUNK_BREAK_WINDOW", 200, least=1, most=4000)
if CHUNK_OVERLAP_CHARS + CHUNK_BREAK_WINDOW >= CHUNK_TARGET_CHARS:
    raise ImproperlyConfigured("CHUNK_OVERLAP_CHARS and CHUNK_BREAK_WINDOW together must be below CHUNK_TARGET_CHARS.")
RAG_MAX_FILE_BYTES = env.integer("RAG_MAX_FILE_BYTES", 1024 * 1024, least=1, most=64 * 1024 * 1024)
RAG_RETIRED_DAYS = env.integer("RAG_RETIRED_DAYS", 365, least=0, most=36500)
RAG_CALIBRATE_ON_REINDEX = env.boolean("RAG_CALIBRATE_ON_REINDEX", default=True)
RAG_CANDIDATES = env.integer("RAG_CANDIDATES", 100, least=10, most=1000)
RAG_EXACT_SCAN_ROWS = env.integer("RAG_EXACT_SCAN_ROWS", 5000, least=0, most=1_000_000)
RAG_SEARCH_TIMEOUT = env.integer("RAG_SEARCH_TIMEOUT", 15, least=0, most=3600)
RAG_HNSW_EF_SEARCH = env.integer("RAG_HNSW_EF_SEARCH", 200, least=10, most=1000)

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
log_level = env.choice("DJANGO_LOG_LEVEL", "WARNING", LOG_LEVELS)
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "{levelname} {name}: {message}", "style": "{"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["console"], "level": log_level},
    # Django tells here of every 4xx: a wrong password, address or Host is no fault of the server. A 5xx is an error.
    "loggers": {
        "django.request": {"level": "ERROR" if log_level == "WARNING" else log_level},
        "django.security.DisallowedHost": {"level": "CRITICAL" if log_level == "WARNING" else log_level},
    },
}

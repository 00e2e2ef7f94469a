"""Which files are source code, in which language, and which of them nobody wrote.

Source code is what people write for machines to run, build or render: programs, queries, schemas of interfaces, build
files, templates. Data and configuration (JSON, YAML, TOML, XML, lock files, notebooks) is none: it would fill the index
with keys and numbers. Prose has scopes of its own.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from types import MappingProxyType

from rag.core.chunking.generated import generated_reason

__all__ = ["LANGUAGE_BY_ENDING", "LANGUAGE_BY_INTERPRETER", "LANGUAGE_BY_NAME", "generated_reason", "language_of"]

#: Language → endings of file names, lower case without the dot. Languages without a grammar are cut by size.
_ENDINGS: dict[str, str] = {
    # With a grammar (rag.core.chunking.grammars).
    "bash": "sh bash ksh zsh bats ebuild bashrc bash_profile bash_aliases zshrc zprofile",
    "c": "c h",
    "cpp": "cc cpp cxx c++ hh hpp hxx h++ ipp tpp inl ino cu cuh",
    "csharp": "cs csx",
    "go": "go",
    "java": "java",
    "javascript": "js jsx mjs cjs es6",
    "php": "php php3 php4 php5 php7 php8 phtml",
    "python": "py pyi pyw",
    "ruby": "rb rake gemspec ru rbi podspec thor jbuilder",
    "rust": "rs",
    "sql": "sql psql pgsql ddl plsql tsql",
    "starlark": "bzl bazel star",
    "tsx": "tsx",
    "typescript": "ts mts cts",
    # Without one.
    "ada": "adb ads ada",
    "assembly": "asm s nasm",
    "astro": "astro",
    "awk": "awk",
    "batch": "bat cmd",
    "bicep": "bicep",
    "clojure": "clj cljs cljc edn bb",
    "cmake": "cmake",
    "cobol": "cob cbl cpy",
    "coffeescript": "coffee",
    "crystal": "cr",
    "css": "css scss sass less styl",
    "cue": "cue",
    "cython": "pyx pxd pxi",
    "d": "d di",
    "dart": "dart",
    "elisp": "el",
    "elixir": "ex exs eex heex leex",
    "elm": "elm",
    "erlang": "erl hrl escript",
    "fish": "fish",
    "fortran": "f for f77 f90 f95 f03 f08",
    "fsharp": "fs fsi fsx",
    "gdscript": "gd",
    "gleam": "gleam",
    "glsl": "glsl vert frag geom comp tesc tese",
    "gn": "gn gni",
    "graphql": "graphql gql graphqls",
    "groovy": "groovy gradle gvy",
    "haskell": "hs lhs hsc",
    "haxe": "hx",
    "hcl": "tf tfvars hcl nomad",
    "hlsl": "hlsl hlsli fx",
    "html": "html htm xhtml jinja jinja2 j2 erb haml slim ejs hbs mustache handlebars twig liquid njk pug jsp",
    "julia": "jl",
    "jsonnet": "jsonnet libsonnet",
    "just": "just",
    "kotlin": "kt kts",
    "lisp": "lisp lsp cl asd",
    "lua": "lua luau",
    "m4": "m4 ac",
    "makefile": "mk mak make",
    "matlab": "matlab",
    "metal": "metal",
    "nim": "nim nims nimble",
    "nix": "nix",
    "objective-c": "m mm",
    "ocaml": "ml mli mll mly",
    "odin": "odin",
    "pascal": "pas pp dpr lpr",
    "perl": "pl pm t psgi",
    "powershell": "ps1 psm1 psd1",
    "prolog": "prolog",
    "proto": "proto",
    "purescript": "purs",
    "qml": "qml",
    "r": "r rmd",
    "racket": "rkt",
    "razor": "razor cshtml vbhtml",
    "reason": "re rei res resi",
    "rego": "rego",
    "scala": "scala sc sbt",
    "scheme": "scm ss sld",
    "smali": "smali",
    "solidity": "sol",
    "svelte": "svelte",
    "swift": "swift",
    "systemverilog": "sv svh",
    "tcl": "tcl tk",
    "thrift": "thrift",
    "vala": "vala vapi",
    "verilog": "v vh",
    "vhdl": "vhd vhdl",
    "vim": "vim",
    "visual-basic": "vb bas frm",
    "vue": "vue",
    "wat": "wat wast",
    "wgsl": "wgsl",
    "yacc": "y yy l ll lex",
    "zig": "zig",
}

#: Ending → language.
LANGUAGE_BY_ENDING = MappingProxyType(
    {ending: language for language, endings in _ENDINGS.items() for ending in endings.split()}
)

#: Whole file names, lower case, → language. `Dockerfile.dev` and `dev.Dockerfile` count as `Dockerfile`.
LANGUAGE_BY_NAME = MappingProxyType(
    {
        "appraisals": "ruby",
        "berksfile": "ruby",
        "brewfile": "ruby",
        "build": "starlark",
        "capfile": "ruby",
        "cmakelists.txt": "cmake",
        "configure.ac": "m4",
        "containerfile": "dockerfile",
        "dangerfile": "ruby",
        "dockerfile": "dockerfile",
        "earthfile": "dockerfile",
        "fastfile": "ruby",
        "gemfile": "ruby",
        "gnumakefile": "makefile",
        "guardfile": "ruby",
        "jenkinsfile": "groovy",
        "justfile": "just",
        "kbuild": "makefile",
        "makefile": "makefile",
        "makefile.am": "makefile",
        "makefile.in": "makefile",
        "meson.build": "meson",
        "meson_options.txt": "meson",
        "pkgbuild": "bash",
        "podfile": "ruby",
        "rakefile": "ruby",
        "sconscript": "python",
        "sconstruct": "python",
        "snakefile": "python",
        "thorfile": "ruby",
        "tiltfile": "starlark",
        "vagrantfile": "ruby",
        "workspace": "starlark",
        "wscript": "python",
    }
)

#: Interpreter on the first line, without its version, → language.
LANGUAGE_BY_INTERPRETER = MappingProxyType(
    {
        "ash": "bash",
        "awk": "awk",
        "bash": "bash",
        "bun": "typescript",
        "dash": "bash",
        "deno": "typescript",
        "elixir": "elixir",
        "escript": "erlang",
        "fish": "fish",
        "gawk": "awk",
        "groovy": "groovy",
        "guile": "scheme",
        "julia": "julia",
        "jruby": "ruby",
        "ksh": "bash",
        "lua": "lua",
        "luajit": "lua",
        "make": "makefile",
        "mawk": "awk",
        "node": "javascript",
        "nodejs": "javascript",
        "ocaml": "ocaml",
        "perl": "perl",
        "php": "php",
        "pwsh": "powershell",
        "pypy": "python",
        "python": "python",
        "racket": "racket",
        "rscript": "r",
        "ruby": "ruby",
        "runghc": "haskell",
        "runhaskell": "haskell",
        "scala": "scala",
        "sh": "bash",
        "swift": "swift",
        "tclsh": "tcl",
        "ts-node": "typescript",
        "tsx": "typescript",
        "wish": "tcl",
        "zsh": "bash",
    }
)

#: `.C` and `.H` are C++ where `.c` and `.h` are C; everything else is compared in lower case.
_CASED_ENDINGS = {"C": "cpp", "H": "cpp"}
_STEMS_WITH_VARIANTS = {
    "dockerfile": "dockerfile",
    "containerfile": "dockerfile",
    "makefile": "makefile",
    "jenkinsfile": "groovy",
}
_SHEBANG = re.compile(r"\ufeff?#!\s*(\S+)((?:[ \t]+\S+)*)")
_VERSION = re.compile(r"[\d.]+$")


def language_of(path: str, first_line: str = "") -> str | None:
    """The programming language of the file at ``path``; ``None`` when it is no source code.

    Decided by the file's name, then its ending, then the interpreter on ``first_line`` (for a name without a known
    ending; the text's first line or more of it).
    """
    name = PurePosixPath(path).name
    lowered = name.lower()
    if lowered in LANGUAGE_BY_NAME:
        return LANGUAGE_BY_NAME[lowered]
    stem, _, ending = name.rpartition(".")
    if ending in _CASED_ENDINGS and stem:
        return _CASED_ENDINGS[ending]
    first, _, _ = lowered.partition(".")
    for part in (first, ending.lower()):
        if part in _STEMS_WITH_VARIANTS:
            return _STEMS_WITH_VARIANTS[part]
    if "." in name and ending.lower() in LANGUAGE_BY_ENDING:
        return LANGUAGE_BY_ENDING[ending.lower()]
    return _by_interpreter(first_line)


def _by_interpreter(first_line: str) -> str | None:
    match = _SHEBANG.match(first_line)
    if match is None:
        return None
    command = PurePosixPath(match[1]).name
    if command == "env":
        words = [word for word in match[2].split() if not word.startswith("-") and "=" not in word]
        command = PurePosixPath(words[0]).name if words else ""
    return LANGUAGE_BY_INTERPRETER.get(_VERSION.sub("", command.lower()))

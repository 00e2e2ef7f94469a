"""What a reindex costs apart from its embedding, each figure paired in this run with what it should be held against.

- ``no-change``: a run that finds nothing new against ``git ls-tree -r`` of the same repository, and one with one
  changed file.
- ``rate``: whole runs with the vectors already computed, without and with the HNSW index, against a bare COPY of the
  same rows into a table with the same columns and indexes, and (``--langchain``) against LangChain's PGVectorStore
  ingesting the same texts and vectors into a table with an HNSW and a GIN index.
- ``searches``: searches asked all the time while another process replaces the whole index.
- ``memory``: peak resident memory of ``manage.py reindex`` over a large repository.

Everything is made here and removed again; vectors come from a stub that speaks Ollama's API.

    .venv/bin/python benchmarks/indexing.py [--files 5000 --sections 2] [--memory-chunks 200000] [--only rate …]
    python3 -m venv /tmp/lc && /tmp/lc/bin/pip install langchain-postgres     # never a dependency of the product
    .venv/bin/python benchmarks/indexing.py --langchain /tmp/lc/bin/python

The database is one of its own, in a temporary folder (``--data-dir``: below that one, which is kept).
"""

from __future__ import annotations

import argparse
import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

import django
from sessions import Stub

STEPS = ("no-change", "rate", "searches", "memory")


def main() -> None:
    """Make a database, run the steps, remove everything."""
    options = arguments()
    folder = options.data_dir or Path(tempfile.mkdtemp(prefix="indexing-benchmark-"))
    folder.mkdir(parents=True, exist_ok=True)
    # As root the embedded server runs as a system user, who must get through.
    folder.chmod(0o755)
    if options.data_dir is None:
        # Before Django is set up: what is registered first is done last, when the server has stopped.
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ |= {
        "RAG_DATA_DIR": str(folder / "var"),
        "RAG_REPOSITORY_ROOTS": str(folder),
        "RAG_EMBEDDING_PROVIDER": "ollama",
        "RAG_EMBEDDING_MODEL": "",
        # Measuring thresholds is no part of indexing, and is not due after most runs.
        "RAG_CALIBRATE_ON_REINDEX": "0",
        "DATABASE_URL": "",
        "DJANGO_SETTINGS_MODULE": "ragproject.settings",
    }
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    with Stub() as url:
        os.environ["OLLAMA_BASE_URL"] = url
        django.setup()
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Run the steps that are asked for."""
    from django.core.management import call_command
    from indexing_rates import keep_vectors, made_project, run, show_rates
    from indexing_steps import show_memory, show_searches, show_small_runs

    call_command("migrate", verbosity=0)
    steps = options.only or STEPS
    if {"no-change", "rate", "searches"} & set(steps):
        project = made_project("measured", files=options.files, sections=options.sections)
        first = run(project)
        phases = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in first.phases.items())
        print(f"{options.files} files, {first.created} chunks; the first run: {phases}\n", flush=True)
        if "rate" in steps:
            keep_vectors(project)
            show_rates(project, rounds=options.rounds, langchain=options.langchain)
        if "no-change" in steps:
            show_small_runs(project, files=options.files)
        if "searches" in steps:
            show_searches(project, files=options.files, sections=options.sections)
    if "memory" in steps:
        show_memory(chunks=options.memory_chunks)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=5000, help="Markdown files of the repository")
    parser.add_argument("--sections", type=int, default=2, help="sections a file, each about a chunk")
    parser.add_argument("--rounds", type=int, default=1, help="how often each rate is measured; medians are told")
    parser.add_argument("--memory-chunks", type=int, default=50_000, help="chunks of the repository of that step")
    parser.add_argument("--langchain", metavar="PYTHON", help="an interpreter with langchain-postgres")
    parser.add_argument("--only", action="append", choices=STEPS, help="only this step (repeatable)")
    parser.add_argument("--data-dir", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()

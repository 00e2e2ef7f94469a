"""The embedded PostgreSQL: real servers in folders of their own, used by real processes."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ragproject.embedded_postgres import EmbeddedPostgresError
from ragproject.embedded_postgres.account import Account, first_closed_folder, may_grant_read_search, switch_to
from ragproject.embedded_postgres.cluster import Cluster, State
from ragproject.embedded_postgres.launcher import server

ROOT = Path(__file__).resolve().parents[2]
AS_ROOT = os.geteuid() == 0
only_root = pytest.mark.skipif(
    not (AS_ROOT and may_grant_read_search()), reason="is about what only root with all its capabilities can do"
)

#: A client that says where the socket lies, and leaves when its standard input ends.
CLIENT = """
    import sys
    from ragproject.embedded_postgres.launcher import server
    print(server(sys.argv[1]).ensure(), flush=True)
    sys.stdin.read()
"""

DJANGO = """
    import sys
    from pathlib import Path
    from django.conf import settings
    entry = {"ENGINE": "ragproject.embedded_postgres", "NAME": "rag", "DATA_DIR": Path(sys.argv[1])}
    OPTIONS = {}
    settings.configure(
        USE_TZ=True, INSTALLED_APPS=["django.contrib.contenttypes"], DATABASES={"default": entry | EXTRA}
    )
    import django
    django.setup()
    from django.core.management import execute_from_command_line
    from django.db import connection
    def ask(question):
        with connection.cursor() as cursor:
            cursor.execute(question)
            return cursor.fetchone()[0]
"""


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **more}


def start(
    script: str, *arguments: object, prefix: tuple[str, ...] = (), cwd: Path | str = "/", **more: str
) -> subprocess.Popen[str]:
    """A Python process that runs the script."""
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=environment(**more),
    )


def run(script: str, *arguments: object, **more: Any) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the script."""
    process = start(script, *arguments, **more)
    out, err = process.communicate(timeout=60)
    return process.returncode, out.strip(), err.strip()


def django_script(script: str, **extra: Any) -> str:
    return f"EXTRA = {extra!r}\n" + textwrap.dedent(DJANGO) + textwrap.dedent(script)


def socket_of(client: subprocess.Popen[str]) -> Path:
    assert client.stdout is not None
    line = client.stdout.readline().strip()
    assert line, client.communicate()[1]
    return Path(line)


def leave(client: subprocess.Popen[str]) -> None:
    client.communicate(timeout=60)
    assert client.returncode == 0


def state(home: Path) -> State:
    return Cluster(home).state()


def server_pid(home: Path) -> int:
    return int((home / "data/postmaster.pid").read_text().split()[0])


@dataclass(frozen=True, slots=True)
class FirstStart:
    """What three processes saw that were the first, all at once, on one folder."""

    home: Path
    #: The files that were there when the last of them had left.
    files: list[str]
    sockets: set[Path]
    #: The server's process id with three, two and one of them there.
    pids: list[int]


@pytest.fixture(scope="module")
def first_start(tmp_path_factory: pytest.TempPathFactory) -> FirstStart:
    home = tmp_path_factory.mktemp("first") / "below/postgres"
    (home / "data.part/base").mkdir(parents=True)  # what an interrupted start leaves
    clients = [start(CLIENT, home, LC_ALL="C", LANG="C") for _ in range(3)]
    sockets = {socket_of(client) for client in clients}
    pids = []
    for client in clients:
        pids.append(server_pid(home))
        leave(client)
    return FirstStart(home, sorted(path.name for path in home.iterdir()), sockets, pids)


@pytest.fixture
def home(first_start: FirstStart) -> Iterator[Path]:
    """A cluster whose server does not run; every test leaves it so."""
    assert state(first_start.home) is State.DOWN
    yield first_start.home
    kill_left_over(first_start.home)


def kill_left_over(home: Path) -> None:
    """What a failed test left running."""
    if state(home) is not State.DOWN:
        os.kill(server_pid(home), signal.SIGINT)
    wait_until_down(home)


def wait_until_down(home: Path) -> None:
    deadline = time.monotonic() + 10
    while state(home) is not State.DOWN and time.monotonic() < deadline:
        time.sleep(0.05)


def test_processes_that_start_at_once_share_one_server_and_the_last_one_stops_it(first_start: FirstStart) -> None:
    assert len(first_start.sockets) == 1
    assert len(set(first_start.pids)) == 1
    assert state(first_start.home) is State.DOWN
    assert first_start.files == ["clients.lock", "data", "server.log", "start.lock"]


def test_a_new_database_is_migrated(home: Path) -> None:
    script = django_script("execute_from_command_line(['manage.py', 'migrate', '--verbosity=0'])", NAME="new")
    assert run(script, home) == (0, "", "")
    assert run(django_script("print(ask('SELECT count(*) > 0 FROM django_migrations'))", NAME="new"), home) == (
        0,
        "True",
        "",
    )


def test_words_are_folded_whatever_the_environments_locale(home: Path) -> None:
    script = django_script("""print(ask("SELECT to_tsvector('russian', 'ПУТЬ') @@ to_tsquery('russian', 'путь')"))""")
    assert run(script, home, LC_ALL="C", LANG="C", PGHOST="elsewhere") == (0, "True", "")


def test_the_application_is_no_superuser_and_can_make_a_test_database(home: Path) -> None:
    script = django_script("""
        print(ask("SELECT rolsuper FROM pg_roles WHERE rolname = current_user"))
        connection.creation.create_test_db(verbosity=0)
        with connection.cursor() as cursor:
            cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
            cursor.execute("CREATE EXTENSION unaccent")
            cursor.execute("SELECT unaccent('ação'), current_database(), '[1,2]'::vector::text")
            print(*cursor.fetchone())
        connection.creation.destroy_test_db("rag", verbosity=0)
        print(ask("SELECT current_database()"))
    """)
    assert run(script, home) == (0, "False\nacao test_rag [1,2]\nrag", "")


def test_a_pool_serves_threads_and_ends_without_a_complaint(home: Path) -> None:
    script = django_script(
        """
        from concurrent.futures import ThreadPoolExecutor
        def work(number):
            try:
                return ask(f"SELECT {number}")
            finally:
                connection.close()
        with ThreadPoolExecutor(4) as threads:
            print(sum(threads.map(work, range(20))))
        ask("SELECT 1")
        """,
        OPTIONS={"pool": {"min_size": 2, "max_size": 4}},
    )
    assert run(script, home) == (0, "190", "")
    assert state(home) is State.DOWN


def test_dbshell_is_the_wheels_psql(home: Path) -> None:
    script = django_script("""
        questions = ["SELECT current_database(), current_user", "SELECT :'VERSION_NAME' = :'SERVER_VERSION_NAME'"]
        Path("questions.sql").write_text(";".join(questions) + ";")
        execute_from_command_line(["manage.py", "dbshell", "--", "-At", "-f", "questions.sql"])
    """)
    assert run(script, home, cwd=home.parent) == (0, "rag|rag\nt", "")


def test_clients_that_leave_at_once_leave_no_server(home: Path) -> None:
    clients = [start(CLIENT, home) for _ in range(3)]
    for client in clients:
        socket_of(client)
    for client in clients:
        assert client.stdin is not None
        client.stdin.close()
        client.stdin = None
    for client in clients:
        leave(client)
    assert state(home) is State.DOWN


def test_after_a_kill_the_next_client_takes_the_server_over(home: Path) -> None:
    killed = start(CLIENT, home)
    socket_of(killed)
    pid = server_pid(home)
    killed.kill()
    killed.communicate()
    assert state(home) is State.READY
    following = start(CLIENT, home)
    socket_of(following)
    assert server_pid(home) == pid
    leave(following)
    assert state(home) is State.DOWN


def test_a_forks_child_does_not_stop_its_parents_server(home: Path) -> None:
    script = """
        import os, sys
        from ragproject.embedded_postgres.cluster import Cluster
        from ragproject.embedded_postgres.launcher import server
        server(sys.argv[1]).ensure()
        for uses_it in (False, True):
            if os.fork() == 0:
                if uses_it:
                    server(sys.argv[1]).ensure()
                sys.exit()
            os.wait()
            print(Cluster(server(sys.argv[1]).home).state().value)
    """
    assert run(script, home) == (0, "ready\nready", "")
    assert state(home) is State.DOWN


def test_a_server_that_died_is_started_again(home: Path) -> None:
    script = django_script("""
        import os, signal, time
        first = ask("SELECT pg_postmaster_start_time()")
        os.kill(int(Path(sys.argv[1], "data/postmaster.pid").read_text().split()[0]), signal.SIGKILL)
        time.sleep(0.5)
        connection.close()
        print(ask("SELECT pg_postmaster_start_time()") > first)
    """)
    assert run(script, home) == (0, "True", "")


def test_a_record_left_by_a_crash_whose_pid_is_anothers_does_not_hinder(home: Path) -> None:
    record = home / "data/postmaster.pid"
    record.write_text(f"{os.getpid()}\n{home / 'data'}\n1\n5432\n{home}\n\n 1 1\nready\n")
    if AS_ROOT:
        shutil.chown(record, *(home / "data").stat()[4:6])
    code, _, err = run(CLIENT, home)
    assert (code, err) == (0, "")


def test_a_folder_with_a_long_name_has_its_socket_elsewhere_and_nothing_stays_there(home: Path, tmp_path: Path) -> None:
    long = tmp_path / ("long" * 20) / "with, comma"
    long.parent.mkdir()
    home.rename(long)
    try:
        client = start(CLIENT, long)
        folder = socket_of(client)
        assert long not in folder.parents
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        leave(client)
        assert not folder.exists()
    finally:
        long.rename(home)


def test_a_cluster_of_another_version_is_refused_with_a_remedy(tmp_path: Path) -> None:
    data = tmp_path / "postgres/data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("17\n")
    if AS_ROOT:
        shutil.chown(data, 65534)
    with pytest.raises(EmbeddedPostgresError, match=r"made by PostgreSQL 17, and \d+ is installed: install"):
        server(data.parent).ensure()


def test_a_server_that_cannot_start_says_why(home: Path) -> None:
    configuration = home / "data/postgresql.conf"
    right = configuration.read_text()
    configuration.write_text(right + "shared_buffers = 'plenty'\n")
    try:
        with pytest.raises(EmbeddedPostgresError, match=r"did not start: .*contains errors\. \(see .*server\.log\)"):
            server(home).ensure()
    finally:
        configuration.write_text(right)


def test_commands_say_in_one_line_that_the_folder_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "var").write_text("a file")
    code, out, err = run(
        django_script("execute_from_command_line(['manage.py', 'migrate'])"), tmp_path / "var/postgres"
    )
    assert (code, out) == (1, "")
    assert "RAG_DATA_DIR" in err
    assert "Traceback" not in err
    assert "\n" not in err


def test_the_folder_in_the_way_is_found(tmp_path: Path) -> None:
    inner = tmp_path / "closed/open"
    inner.mkdir(parents=True)
    inner.chmod(0o755)
    inner.parent.chmod(0o700)
    nobody = Account(uid=2**31 - 2, gid=2**31 - 2, name="nobody")
    assert first_closed_folder((inner, inner.parent), nobody) == inner.parent
    assert first_closed_folder((inner,), nobody) is None


@only_root
def test_a_user_that_root_becomes_reaches_closed_folders_and_may_not_write_there(tmp_path: Path) -> None:
    program = tmp_path / "closed/postgres"
    program.parent.mkdir(mode=0o700)
    program.write_text(
        """#!/bin/sh
        id -u
        test -x "$0" && echo may run it
        touch "$0.new" 2>/dev/null || echo may not write
        """
    )
    program.chmod(0o755)
    switch = switch_to(Account(uid=65534, gid=65534, name="nobody"), executables=program.parent, data=tmp_path / "data")
    done = subprocess.run([*switch.prefix, program], capture_output=True, text=True, **dict(switch.options))
    assert done.stdout.splitlines() == ["65534", "may run it", "may not write"]


@only_root
def test_root_uses_a_folder_below_a_closed_one_and_leaves_it_closed(home: Path) -> None:
    home.parent.chmod(0o700)
    client = start(CLIENT, home)
    socket_of(client)
    owner = Path(f"/proc/{server_pid(home)}").stat().st_uid
    leave(client)
    assert owner == (home / "data").stat().st_uid != 0
    assert stat.S_IMODE(home.parent.stat().st_mode) == 0o700


@only_root
def test_root_without_the_capability_is_told_which_folder_is_in_the_way(home: Path) -> None:
    home.parent.chmod(0o700)
    code, _, err = run(CLIENT, home, prefix=("setpriv", "--bounding-set=-dac_read_search"))
    assert code == 1
    assert "cannot enter" in err.splitlines()[-1]
    assert "RAG_DATA_DIR" in err.splitlines()[-1]


@only_root
def test_an_ordinary_user_makes_and_uses_a_cluster(tmp_path: Path) -> None:
    home = tmp_path / "own/postgres"
    home.parent.mkdir()
    shutil.chown(home.parent, 65534)
    # The capability lets that user read this project's environment, wherever it lies; it writes nothing more.
    become = ("setpriv", "--reuid=65534", "--clear-groups", "--inh-caps=+dac_read_search")
    become += ("--ambient-caps=+dac_read_search", "--securebits=+no_setuid_fixup")
    code, _, err = run(CLIENT, home, prefix=become, TMPDIR=str(home.parent))
    assert (code, err) == (0, "")
    assert home.stat().st_uid == 65534
    # Root next, on the same folder: the server is the owner's again, and so are the files.
    client = start(CLIENT, home)
    socket_of(client)
    assert Path(f"/proc/{server_pid(home)}").stat().st_uid == 65534
    leave(client)
    assert {path.stat().st_uid for path in home.iterdir()} == {65534}

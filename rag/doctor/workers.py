"""Background workers: whether anybody takes the jobs that wait."""

from __future__ import annotations

from collections.abc import Iterator

from django.template.defaultfilters import pluralize

from rag.doctor.findings import Check, Finding, Needs, Subject, error, ok, warning

CHECK = "workers"
#: Seconds without a heartbeat after which procrastinate itself counts a worker as dead (it beats every 10).
DEAD_AFTER = 30
#: A job that waits this long is not just being picked up. Seconds.
WAITED = 30
WORK = "manage.py procrastinate worker"


def workers(subject: Subject) -> Iterator[Finding]:
    """Jobs that wait, workers that live, and jobs whose worker died."""
    if subject.rows("SELECT to_regclass('procrastinate_jobs') IS NULL") == [(True,)]:
        yield error(CHECK, "The tables of the job queue are missing.", "manage.py migrate")
        return
    ((alive,),) = subject.rows(
        "SELECT count(*) FROM procrastinate_workers WHERE last_heartbeat > now() - make_interval(secs => %s)",
        [DEAD_AFTER],
    )
    ((waiting, seconds),) = subject.rows(
        "SELECT count(*), coalesce(extract(epoch FROM max(now() - coalesce(j.scheduled_at, e.at))), 0)::float"
        " FROM procrastinate_jobs j"
        " LEFT JOIN LATERAL (SELECT min(at) AS at FROM procrastinate_events WHERE job_id = j.id) e ON true"
        " WHERE j.status = 'todo' AND coalesce(j.scheduled_at, now()) <= now()"
    )
    ((stalled,),) = subject.rows(
        "SELECT count(*) FROM procrastinate_jobs j LEFT JOIN procrastinate_workers w ON w.id = j.worker_id"
        " WHERE j.status = 'doing' AND (w.id IS NULL OR w.last_heartbeat <= now() - make_interval(secs => %s))",
        [DEAD_AFTER],
    )
    if waiting and not alive:
        yield error(CHECK, f"{waiting} jobs wait, and no worker lives to take them.", WORK)
    elif waiting and seconds > WAITED:
        message = f"{waiting} jobs wait, the first for {seconds:.0f} seconds: {alive} workers are not enough."
        yield warning(CHECK, message, f"{WORK} (one more, on any machine)")
    elif not stalled:
        yield ok(CHECK, f"{alive} worker{pluralize(alive)} live, {waiting} job{pluralize(waiting)} wait.")
    if stalled:
        yield warning(CHECK, f"{stalled} jobs are being done by workers that died.", f"{WORK} (it takes them up again)")


CHECKS = (Check(CHECK, Needs.TABLES, workers),)

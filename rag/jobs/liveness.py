"""Which workers show life, and which jobs have lost theirs."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Q
from django.utils import timezone
from procrastinate.contrib.django.models import ProcrastinateEvent, ProcrastinateJob, ProcrastinateWorker

#: Seconds without a heartbeat (one every ten) after which a worker is taken for dead.
DEAD_AFTER = 30.0
#: Seconds after which a job whose worker lives, but whose run has not begun, is taken for lost: beginning takes less
#: than one.
NOT_BEGUN_AFTER = 60.0


def has_worker() -> bool:
    """Whether a worker has shown life lately."""
    since = timezone.now() - timedelta(seconds=DEAD_AFTER)
    return bool(ProcrastinateWorker.objects.filter(last_heartbeat__gt=since).exists())


def of_dead_workers() -> Q:
    """Jobs whose worker is gone or shows no life any more."""
    return Q(worker=None) | Q(worker__last_heartbeat__lt=timezone.now() - timedelta(seconds=DEAD_AFTER))


def is_stalled(job: ProcrastinateJob) -> bool:
    """Whether a job that a worker has taken, and whose run has not begun, is lost."""
    now = timezone.now()
    if job.worker is None or job.worker.last_heartbeat < now - timedelta(seconds=DEAD_AFTER):
        return True
    begun_before = now - timedelta(seconds=NOT_BEGUN_AFTER)
    return not ProcrastinateEvent.objects.filter(job_id=job.pk, type="started", at__gt=begun_before).exists()

"""At the end of a reindex: the thresholds without labels are measured again when the index has changed by a tenth.

After the run, in its process: the run is published and its lock let go, so nothing here can fail or delay it for
others. A reindex sends nothing to a server but the passages it embeds: the general questions are embedded by the model
in this process, by a worker, or by a ``calibrate``, once a model and installation (docs/adr/0015).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rag.calibration.asking import Hurry, NotMeasured, TooSlow, Watch, has_bank_vectors
from rag.calibration.noise import Noise, calibrate_by_noise, count_chunks, noise_json
from rag.calibration.profile import TOO_SLOW, is_automatic, store
from rag.conf import conf
from rag.core.errors import RagError
from rag.models import IndexRun, Project, RunState
from rag.provider import service_for
from rag.search import DEFAULT_SCOPES

logger = logging.getLogger(__name__)

#: Share of the index that must have changed before a reindex measures the noise again.
CHANGED_SHARE = 0.1
#: A smaller index is not measured by itself: 390 questions would take longer than its indexing, and a percentile of
#: scores against a handful of passages says little.
FEWEST_CHUNKS = 50
#: A question takes about 10 to 50 ms to embed and as long to ask: a minute each is enough for all of the bank on a slow
#: machine, and no more than anybody waits for behind a run.
HURRY = Hurry(embedding=60.0, asking=60.0)


#: The provider that computes in this process: nothing is sent.
LOCAL = "local"


class _Stopped(Exception):
    """Whoever carried the run out wants to end."""


class _NotYet(Exception):
    """It is due, and cannot be done here; says what would."""


@dataclass(frozen=True, slots=True)
class Index:
    """How the index stands after a run: passages, those with a vector, and those that the run has changed."""

    chunks: int
    embedded: int
    changed: int

    def differs_from(self, state: Mapping[str, Any]) -> bool:
        """Whether more than a tenth has changed, or was embedded, since the profile noted the ``state``."""
        much = CHANGED_SHARE * max(self.chunks, int(state["chunks"]))
        return int(state["changed"]) + self.changed > much or self.embedded - int(state.get("embedded", 0)) > much


def recalibrate_after(
    run: IndexRun,
    *,
    project: Project,
    hurried: bool = False,
    may_send: bool = False,
    watch: Watch | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Noise | None:
    """Measure the noise after a run that succeeded, where it is due, and write it into the run's report.

    ``hurried``: only count what has changed; the next run that is not measures. ``may_send``: the general questions may
    be sent to a server that has not embedded them yet. Returns what was measured, or ``None``. Never raises: a reindex
    that is done stays done.
    """
    if run.state != RunState.SUCCEEDED or not conf().calibrate_on_reindex:
        return None

    def watched(phase: str, done: int, total: int) -> None:
        if should_stop is not None and should_stop():
            raise _Stopped
        if watch is not None:
            watch(phase, done, total)

    try:
        noise = _recalibrate(project, run.report, hurried=hurried, may_send=may_send, watch=watched)
        if noise is not None:
            found = noise_json(noise) | {"calibratedAt": project.profile["calibrated_at"]}
            _report(run, calibration=found, calibrationDue=None)
        return noise
    except (_NotYet, NotMeasured) as due:
        _report(run, calibrationDue=str(due))
    except (RagError, _Stopped, KeyboardInterrupt, SystemExit) as error:
        logger.info("The thresholds of %s stay as they are: %s", project.slug, str(error) or type(error).__name__)
    except Exception:
        logger.exception("The thresholds of %s could not be measured", project.slug)
    return None


def _counted(report: Mapping[str, Any]) -> tuple[int, int] | None:
    """What ``count_chunks`` would count, where the run's report tells it: a run of all of them that left no gap."""
    scopes, embedding = report.get("scopes") or {}, report.get("embedding") or {}
    if not embedding or embedding["skipped"] or embedding["failed"] or not set(DEFAULT_SCOPES) <= set(scopes):
        return None
    chunks = sum(scopes[scope]["created"] + scopes[scope]["unchanged"] for scope in DEFAULT_SCOPES)
    return chunks, chunks


def _report(run: IndexRun, **found: Any) -> None:
    run.report = {**run.report, **found}
    IndexRun.objects.filter(pk=run.pk).update(report=run.report)


def _recalibrate(
    project: Project, report: Mapping[str, Any], *, hurried: bool, may_send: bool, watch: Watch
) -> Noise | None:
    project.refresh_from_db(fields=["profile"])
    if not is_automatic(project):
        return None
    service = service_for(project)
    chunks, embedded = _counted(report) or count_chunks(project, model=service.model)
    if chunks < FEWEST_CHUNKS:
        return None
    stored, model, changed = project.profile or {}, service.profile.model, _changed(report)
    # How the index stood when the noise was last measured, and when measuring it took too long.
    last = stored.get("noise") if stored.get("model") == model else None
    slow = stored[TOO_SLOW] if stored.get(TOO_SLOW, {}).get("model") == model else None
    if changed and (last or slow):
        # Before measuring, which may be broken off: the next run then still finds it due.
        counted = {
            name: {**state, "changed": state["changed"] + changed}
            for name, state in (("noise", last), (TOO_SLOW, slow))
            if state is not None
        }
        store(project=project, profile={**stored, **counted}, instead_of=stored)
    index = Index(chunks, embedded, changed)
    # Thresholds by words alone, or over few vectors, say nothing of an index that has them now.
    is_due = last is None or index.differs_from(last) or (embedded > 0 and not last["hybrid"])
    if hurried or not is_due:
        return None
    if embedded and not (may_send or service.provider == LOCAL or has_bank_vectors(service)):
        raise _NotYet(
            f"The general questions have no vectors of {model} yet: manage.py calibrate {project.slug} "
            "computes them, once for all projects; so does a worker."
        )
    if slow is not None and not index.differs_from(slow):
        raise _NotYet(f"Asking the general questions took too long. {_when_again(project)}")
    try:
        return calibrate_by_noise(project=project, hurry=HURRY, watch=watch)
    except TooSlow as error:
        mark = {"model": model, "chunks": chunks, "embedded": embedded, "changed": 0}
        store(project=project, profile={**project.profile, TOO_SLOW: mark}, instead_of=project.profile)
        raise TooSlow(f"{error} {_when_again(project)}") from None


def _when_again(project: Project) -> str:
    return (
        f"manage.py calibrate {project.slug} takes the time it needs; a reindex tries again when another tenth of the "
        "index has changed."
    )


def _changed(report: Mapping[str, Any]) -> int:
    """Passages of the scopes searched by default that the run has changed; an edited one, created and deleted, once."""
    scopes: Mapping[str, Any] = report.get("scopes") or {}
    return sum(
        max(scopes[scope].get("created", 0), scopes[scope].get("deleted", 0))
        for scope in DEFAULT_SCOPES
        if scope in scopes
    )

"""What is wrong with this installation, and what to do about it."""

from rag.doctor.checkup import examine, report_json
from rag.doctor.findings import Finding, Severity

__all__ = ["Finding", "Severity", "examine", "report_json"]

"""Background work: the only place that knows threads and other processes."""

from explorer.qt.jobs.consideration import consideration, reconsider
from explorer.qt.jobs.runner import Cancelled, Job, JobRunner, drop_frames

__all__ = ["Cancelled", "Job", "JobRunner", "consideration", "drop_frames", "reconsider"]

"""``python -m tests.spark_jobs.plans``: write the committed plans anew."""

from __future__ import annotations

from spark_jobs.session import session
from tests.spark_jobs.plans.jobs import FOLDER, plans_of_all_jobs

if __name__ == "__main__":
    for name, text in plans_of_all_jobs(session("plans", quick=True)).items():
        (FOLDER / f"{name}.txt").write_text(text)

"""`make pod-template`: programs of others read the pod template of KubernetesExecutor.

The template, and the pod that Airflow's provider makes of it for a task, are compared with the
schema of the Kubernetes API (kubernetes-validate, strict: no unknown fields). Both packages are
installed in an environment of their own: the schemas alone have 17,000 files.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.further_packages import environment_with

from ackbench.infra.machine.home import REPOSITORY

PACKAGES: Final = ("kubernetes-validate", "apache-airflow-providers-cncf-kubernetes")
TEMPLATE: Final = REPOSITORY / "docs" / "kubernetes" / "pod-template.yaml"
VERSIONS: Final = ("1.30", "1.37")
"""Versions of Kubernetes: an old one and the newest that the schemas are of."""
_CONSTRUCT: Final = """
import sys
from datetime import UTC, datetime
import yaml
from airflow.providers.cncf.kubernetes.pod_generator import PodGenerator
from kubernetes.client import ApiClient
template = PodGenerator.deserialize_model_file(sys.argv[1])
pod = PodGenerator.construct_pod(
    dag_id="ackbench_sweep", task_id="trial", pod_id="ackbench-sweep-trial-1", try_number=1,
    kube_image="", date=datetime.now(UTC), args=["airflow", "version"], pod_override_object=None,
    base_worker_pod=template, namespace="airflow", scheduler_job_id="1", map_index=1)
print(yaml.safe_dump(ApiClient().sanitize_for_serialization(pod)))
"""


def main() -> int:
    """Install the programs and let them read the template; return 1 if anything is wrong."""
    python = environment_with(PACKAGES, REPOSITORY / ".venv" / "pod-template")
    with tempfile.TemporaryDirectory() as name:
        pod = Path(name) / "pod.yaml"
        made = subprocess.run(
            [python, "-c", _CONSTRUCT, TEMPLATE], stdout=subprocess.PIPE, text=True, check=True
        )
        pod.write_text(made.stdout[made.stdout.index("apiVersion:") :])
        validate = [str(python.with_name("kubernetes-validate")), "--strict", "-k"]
        codes = [
            subprocess.run([*validate, version, str(TEMPLATE), str(pod)], check=False).returncode
            for version in VERSIONS
        ]
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())

"""The pod template in `docs/kubernetes/`: what ackbench needs of a pod of KubernetesExecutor.

`make pod-template` compares it with the schema of the Kubernetes API, and has Airflow make a pod of
it; both need a package registry.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
import yaml

from ackbench.experiments.orchestration.step_context import TASK_START_GRACE_S
from ackbench.experiments.sweep.lookup import STORE_VARIABLE
from ackbench.infra.machine.home import REPOSITORY
from ackbench.infra.machine.identity import HOST_VARIABLE

TEMPLATE: Final = REPOSITORY / "docs" / "kubernetes" / "pod-template.yaml"
SECRETS: Final = ("SECRET", "PASSWORD", "TOKEN", "ACCESS_KEY", "USERNAME")
"""Parts of the names of variables whose values are secrets."""


@pytest.fixture
def pod() -> dict[str, Any]:
    """Return the template."""
    found: dict[str, Any] = yaml.safe_load(TEMPLATE.read_text())
    return found


@pytest.fixture
def variables(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the variables of the container that runs the task, by name."""
    (container,) = pod["spec"]["containers"]
    assert container["name"] == "base", "the name that KubernetesExecutor asks for"
    return {one["name"]: one for one in container["env"]}


def test_the_host_is_the_node_because_a_pod_has_another_name_at_each_start(
    variables: dict[str, dict[str, Any]],
) -> None:
    """So that repeats are balanced over nodes, and figures compared by node."""
    assert variables[HOST_VARIABLE]["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"


def test_the_home_is_the_pods_own_and_the_store_is_common(
    pod: dict[str, Any], variables: dict[str, dict[str, Any]]
) -> None:
    """A home that two pods share would be refused."""
    (container,) = pod["spec"]["containers"]
    mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    home = variables["ACKBENCH_HOME"]["value"]
    (volume,) = (name for path, name in mounts.items() if home.startswith(f"{path}/"))
    assert [one["name"] for one in pod["spec"]["volumes"] if "emptyDir" in one] == [volume]
    assert variables[STORE_VARIABLE]["value"].startswith("s3://")


def test_the_home_of_the_image_is_copied_to_the_same_path(pod: dict[str, Any]) -> None:
    """The start-up caches of the JVMs name the paths of their jars."""
    (copies,) = pod["spec"]["initContainers"]
    (container,) = pod["spec"]["containers"]
    *_, source, target = copies["command"]
    inside = copies["volumeMounts"][0]["mountPath"]
    assert source == target.replace(inside, container["volumeMounts"][0]["mountPath"])
    assert copies["image"] == container["image"]


def test_secrets_are_references(variables: dict[str, dict[str, Any]]) -> None:
    """A template is kept in a repository."""
    secret = {name for name in variables if any(part in name for part in SECRETS)}
    assert len(secret) == 4
    assert all("secretKeyRef" in variables[name]["valueFrom"] for name in secret)
    assert all("value" not in variables[name] for name in secret)


def test_a_pod_has_no_privileges_and_no_token(pod: dict[str, Any]) -> None:
    """Trials start brokers as an ordinary user, and nothing asks the API of Kubernetes."""
    spec = pod["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    for container in (*spec["initContainers"], *spec["containers"]):
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_a_pod_has_its_node_to_itself_as_far_as_ackbench_is_concerned(pod: dict[str, Any]) -> None:
    """No other batch runs on it, and what the pod may use is reserved for it."""
    spec = pod["spec"]
    (rule,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["topologyKey"] == "kubernetes.io/hostname"
    assert rule["labelSelector"]["matchLabels"] == pod["metadata"]["labels"]
    for container in (*spec["initContainers"], *spec["containers"]):
        assert container["resources"]["requests"] == container["resources"]["limits"]


def test_a_deleted_pod_has_the_time_to_destroy_its_cluster(pod: dict[str, Any]) -> None:
    """As long as a cluster outlives the task that used it last on one machine."""
    assert pod["spec"]["terminationGracePeriodSeconds"] >= TASK_START_GRACE_S
    assert pod["spec"]["restartPolicy"] == "Never"

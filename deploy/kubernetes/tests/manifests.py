"""Checks the manifests without a cluster.

python manifests.py path/to/pteron

Needs PyPI's pyyaml and kubernetes-validate. What only a cluster knows (whether images, drivers and controllers are there) it cannot
show; kinds of other projects are checked by their references alone.
"""

import re
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import yaml

FOLDER = Path(__file__).parents[1]
ROOT = FOLDER.parents[1]
VERSION = "1.33"
OVERLAYS = ("base", "hpa", "keda", "gateway")
# Kinds of other projects, which have no schema here.
OTHERS = {"InferencePool", "HTTPRoute", "PodMonitor", "ScaledObject"}
# Files that are no manifests.
VALUES = {"hpa/prometheus-adapter-values.yaml"}
# What the page says that one must create, or install.
EXTERNAL = {"pteron-keys", "pteron-models", "pteron-epp", "inference-gateway"}


def build(folder: Path) -> list[dict]:
    """The manifests of a folder, as kustomize collects them. Labels that it adds are left out: selectors must match without."""
    found = []
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    files = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}
    files -= {Path(name).name for name in VALUES if name.startswith(folder.name)}
    assert files == {name for name in listed if name.endswith(".yaml")}, folder
    for name in listed:
        path = (folder / name).resolve()
        if path.is_dir():
            found += build(path)
        else:
            found += [doc for doc in yaml.safe_load_all(path.read_text()) if doc]
    return found


def one(manifests: list[dict], kind: str) -> dict:
    (found,) = [manifest for manifest in manifests if manifest["kind"] == kind]
    return found


def flag(container: dict, name: str) -> str:
    (value,) = [
        arg.split("=")[1] for arg in container["args"] if arg.startswith(f"{name}=")
    ]
    return value


def check_replica(manifests: list[dict], options: str, routes: str) -> None:
    """The Deployment against the command and the server's routes."""
    deployment = one(manifests, "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    for argument in container["args"]:
        name = argument.split("=")[0]
        if name.startswith("--"):
            assert re.search(rf"^\s+{name}\b", options, re.MULTILINE), (
                f"{name} is no option"
            )
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert str(ports["http"]) == flag(container, "--port")
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        call = container[probe]["httpGet"]
        assert call["port"] in ports, probe
        assert f'route("{call["path"]}", get(' in routes, probe
    volumes = {volume["name"] for volume in spec["volumes"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert set(mounts) == volumes
    for argument in container["args"]:
        path = argument.split("=")[-1]
        if path.startswith("/"):
            assert any(path.startswith(f"{mount}/") for mount in mounts.values()), path
    pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain = int(flag(container, "--drain-timeout"))
    assert spec["terminationGracePeriodSeconds"] >= pause + drain + 10
    for volume in spec["volumes"]:
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        secret = volume.get("secret", {}).get("secretName")
        assert (claim or secret or "pteron-keys") in EXTERNAL


def check_references(manifests: list[dict]) -> None:
    """Selectors, ports and names against the Deployment."""
    deployment = one(manifests, "Deployment")
    template = deployment["spec"]["template"]
    labels = template["metadata"]["labels"]
    (container,) = template["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    names = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests}
    assert len(names) == len(manifests), "two manifests have one name"
    for manifest in manifests:
        kind, spec = manifest["kind"], manifest["spec"]
        selector = spec.get("selector", {})
        selector = selector.get("matchLabels", selector)
        assert selector.items() <= labels.items(), kind
        if kind == "Service":
            assert all(port["targetPort"] in ports for port in spec["ports"])
        elif kind == "PodMonitor":
            assert all(end["port"] in ports for end in spec["podMetricsEndpoints"])
        elif kind in ("HorizontalPodAutoscaler", "ScaledObject"):
            target = spec["scaleTargetRef"]
            assert (target["kind"], target["name"]) in names
        elif kind == "InferencePool":
            assert [port["number"] for port in spec["targetPorts"]] == [ports["http"]]
            assert spec["endpointPickerRef"]["name"] in EXTERNAL
            assert spec["selector"]["matchLabels"], "a pool of everything"
        elif kind == "HTTPRoute":
            backends = [back for rule in spec["rules"] for back in rule["backendRefs"]]
            assert all((back["kind"], back["name"]) in names for back in backends)
            assert all(parent["name"] in EXTERNAL for parent in spec["parentRefs"])


def check_metrics(server: str) -> None:
    """Every metric that a manifest or the page names is one of the server's."""
    for path in [*FOLDER.rglob("*.yaml"), FOLDER / "README.md"]:
        # The adapter names two in a pattern.
        text = path.read_text().replace("(active|waiting)", "active")
        for name in re.findall(r"(?:vllm:\w+|pteron_\w+)", text):
            assert f'"{name}"' in server, f"{path}: {name}"


def check_scaling(manifests: list[dict], container: dict) -> None:
    target = str(int(flag(container, "--max-sequences")) * 3 // 4)
    for manifest in manifests:
        if manifest["kind"] == "HorizontalPodAutoscaler":
            first = manifest["spec"]["metrics"][0]["pods"]["target"]
            assert first["averageValue"] == target
        elif manifest["kind"] == "ScaledObject":
            assert manifest["spec"]["triggers"][0]["metadata"]["threshold"] == target


def main() -> None:
    command = [sys.argv[1], "serve", "--help"]
    options = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    source = ROOT / "crates/pteron-server/src"
    routes = (source / "router.rs").read_text()
    check_metrics((source / "metrics.rs").read_text())
    page = (FOLDER / "README.md").read_text()
    assert all(name in page for name in EXTERNAL)
    for overlay in OVERLAYS:
        manifests = build(FOLDER / overlay)
        for manifest in manifests:
            if manifest["kind"] not in OTHERS:
                kubernetes_validate.validate(manifest, VERSION, strict=True)
        check_replica(manifests, options, routes)
        check_references(manifests)
        container = one(manifests, "Deployment")["spec"]["template"]["spec"][
            "containers"
        ][0]
        check_scaling(manifests, container)
        kinds = ", ".join(sorted(manifest["kind"] for manifest in manifests))
        print(f"{overlay}: {kinds}")
    found = {path.parent.name for path in FOLDER.glob("*/kustomization.yaml")}
    assert found == set(OVERLAYS), found


if __name__ == "__main__":
    main()

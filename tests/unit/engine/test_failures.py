from pathlib import Path

import pytest

from servesmith.engine.failures import LINE_LIMIT, classify

LOGS = Path(__file__).parents[2] / "data" / "engine-logs"


@pytest.mark.parametrize(
    ("log", "code", "kind", "shows"),
    [
        ("llamacpp-missing-model.log", 1, "missing-file", "failed to open GGUF file '/nope.gguf'"),
        ("llamacpp-port-taken.log", 1, "port", "couldn't bind HTTP server socket"),
        ("llamacpp-out-of-memory.log", 1, "out-of-memory", "insufficient memory (attempted to allocate 87890.62 MB)"),
        ("llamacpp-quantised-v-without-fa.log", 1, "bad-flag", "quantized V cache requires flash_attn"),
        ("llamacpp-not-a-model.log", 1, "missing-file", "invalid magic characters"),
    ],
)
def test_real_logs_are_classified_with_the_line_that_shows_it(log, code, kind, shows):
    failure = classify((LOGS / log).read_text().splitlines(), code)
    assert failure.kind == kind
    assert shows in failure.log_line


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        # https://github.com/vllm-project/vllm/issues/12030
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has", "out-of-memory"),
        ("vllm: error: unrecognized arguments: --max-num-seq 3", "bad-flag"),
        # https://github.com/vllm-project/vllm/issues/9763
        ("OSError: [Errno 98] Address already in use", "port"),
        ("OSError: /models/x is not a local folder and is not a valid model identifier", "missing-file"),
        ("error: unknown flag --paralel: the embedded engine does not honour it", "bad-flag"),
        ("error: invalid argument: --paralel", "bad-flag"),
    ],
)
def test_telling_lines(line, kind):
    failure = classify(["Starting", f"  {line}  ", "exit"], 1)
    assert (failure.kind, failure.log_line) == (kind, line)


@pytest.mark.parametrize(
    ("lines", "code", "kind", "line"),
    [
        ([], -11, "crash", "the log is empty; ended by signal 11"),
        ([], 3, "crash", "the log is empty; exit 3"),
        (["loading", "Fatal: boom", "bye"], 1, "crash", "Fatal: boom"),
        (["loading", "still loading", "", "  "], None, "timeout", "still loading"),
        ([], None, "timeout", "the log is empty"),
        (["server did not exit", "terror"], None, "timeout", "terror"),
    ],
)
def test_without_a_telling_line(lines, code, kind, line):
    failure = classify(lines, code)
    assert (failure.kind, failure.log_line) == (kind, line)


def test_memory_wins_over_what_follows_from_it():
    lines = ["error: unknown flag --x", "Address already in use", "CUDA out of memory"]
    assert classify(lines, 1).kind == "out-of-memory"


def test_a_hang_with_a_reason_in_the_log_is_that_reason():
    assert classify(["worker died: out of memory", "waiting for worker"], None).kind == "out-of-memory"


def test_lines_are_cut():
    assert len(classify(["error " + "x" * 10_000], 1).log_line) == LINE_LIMIT

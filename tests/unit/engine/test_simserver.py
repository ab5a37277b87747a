"""The sim server over real sockets."""

import http.client
import itertools
import json
import socket
import threading
import time

import httpx2
import pytest

CHAT = {"messages": [{"role": "user", "content": "say it"}], "max_tokens": 5, "ignore_eos": True}


def post(server, path="/v1/chat/completions", **body):
    return httpx2.post(f"{server.url}{path}", json={**CHAT, **body}, trust_env=False, verify=False)


def events(server, path="/v1/chat/completions", **body) -> list[dict]:
    """Data events of a streamed answer without [DONE]."""
    lines = post(server, path, stream=True, **body).text.splitlines()
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    assert data[-1] == "[DONE]"
    return [json.loads(event) for event in data[:-1]]


def deltas(found: list[dict]) -> list[dict]:
    return [event["choices"][0]["delta"] for event in found if event["choices"]]


def test_the_shape_of_a_chat_stream(start_sim):
    with start_sim(ttft_ms=1, gap_ms=1, reasoning_first=2, tokens_per_chunk=2) as server:
        found = events(server, stream_options={"include_usage": True}, return_token_ids=True)
        said = deltas(found)
        assert said[0] == {"role": "assistant", "content": None}
        assert [list(delta) for delta in said[1:]] == [["reasoning_content"], ["content"], ["content"], []]
        assert [len(event["choices"][0].get("token_ids", ())) for event in found[:-1]] == [0, 2, 2, 1, 0]
        assert found[-2]["choices"][0]["finish_reason"] == "length"
        usage = {
            "prompt_tokens": 6,
            "completion_tokens": 5,
            "total_tokens": 11,
            "prompt_tokens_details": {"cached_tokens": 0},
        }
        assert found[-1] == {**found[-1], "choices": [], "usage": usage}
        again = events(server, stream_options={"include_usage": True})
        assert again[-1]["usage"]["prompt_tokens_details"] == {"cached_tokens": 5}
        assert not any("usage" in event for event in events(server))


def test_running_usage_and_completions(start_sim):
    with start_sim(ttft_ms=1, gap_ms=1) as server:
        options = {"include_usage": True, "continuous_usage_stats": True}
        found = events(server, "/v1/completions", prompt=[1, 2, 3], stream_options=options)
        assert [event["usage"]["completion_tokens"] for event in found if "usage" in event] == [1, 2, 3, 4, 5, 5]
        streamed = "".join(event["choices"][0]["text"] for event in found if event["choices"])
        whole = post(server, "/v1/completions", prompt=[1, 2, 3]).json()
        assert whole["choices"][0]["text"] == streamed
        assert whole["usage"]["prompt_tokens"] == 3


def test_what_is_switched_off(start_sim):
    with start_sim(ttft_ms=1, gap_ms=1, no_role_chunk=True, no_usage=True, wrong_model="other") as server:
        found = events(server, stream_options={"include_usage": True})
        assert "role" not in deltas(found)[0]
        assert not any("usage" in event for event in found)
        assert "usage" not in post(server).json()
        assert found[0]["model"] == "other"


def test_marked_answers(start_sim):
    with start_sim(ttft_ms=1, gap_ms=1) as server:
        messages = [{"role": "user", "content": "Copy. ANSWER=one two"}]
        choice = post(server, messages=messages, ignore_eos=False).json()["choices"][0]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("one two", "stop")


def test_counting_endpoints(start_sim):
    with start_sim(slots=3, ctx=99) as server:
        get = lambda path: httpx2.get(f"{server.url}{path}", trust_env=False)  # noqa: E731
        assert get("/health").json() == {"status": "ok"}
        assert get("/v1/models").json()["data"][0] == {
            "id": "sim", "object": "model", "meta": {"n_ctx": 99, "n_vocab": 32000},
        }  # fmt: skip
        assert get("/props").json()["total_slots"] == 3
        prompt = post(server, "/apply-template").json()["prompt"]
        assert post(server, "/tokenize", content=prompt, messages=None).status_code == 400
        counted = httpx2.post(f"{server.url}/tokenize", json={"content": prompt}, trust_env=False).json()
        assert counted["count"] == len(counted["tokens"]) == 6
        assert get("/nope").status_code == 404
        assert httpx2.post(f"{server.url}/v1/completions", content=b"{", trust_env=False).status_code == 400
        post(server)
        metrics = dict(line.split() for line in get("/metrics").text.splitlines() if not line.startswith("#"))
        assert metrics["sim:requests_total"] == "2"  # the readiness test was one
        assert metrics["sim:generation_tokens_total"] == "6"
        assert metrics["sim:requests_running"] == metrics["sim:requests_waiting"] == "0"


def test_errors_come_as_often_as_asked(start_sim):
    with start_sim(ttft_ms=1, gap_ms=1, error_rate=0.3, seed=5) as server:
        codes = [post(server, max_tokens=1).status_code for _ in range(60)]
        assert 8 <= codes.count(500) <= 30
        assert codes.count(200) == 60 - codes.count(500)


def test_chunks_leave_at_their_time_and_the_truth_says_so(start_sim, tmp_path):
    truth = tmp_path / "truth.jsonl"
    with start_sim(
        ttft_ms=40.0, gap_ms=8.0, tokens_per_chunk=2, split_events=True, ping=True, truth=str(truth)
    ) as server:
        before = time.monotonic_ns()
        body = post(server, stream=True, max_tokens=20).text
        after = time.monotonic_ns()
        assert body.count(": ping\n\n") == 10
    line = json.loads(truth.read_text().splitlines()[-1])
    assert before < line["arrival_ns"] <= line["granted_ns"]
    sent = [chunk for chunk in line["chunks"] if chunk[0] == "content"]
    assert [tokens for _, tokens, _, _ in sent] == [2] * 10
    assert sent[0][2] - line["granted_ns"] == pytest.approx(40e6, abs=1e3)
    assert [b[2] - a[2] for a, b in itertools.pairwise(sent)] == pytest.approx([8e6] * 9, abs=1e3)
    late = sorted(at - due for _, _, due, at in sent)
    assert late[0] >= 0
    assert late[len(late) // 2] < 5e6  # generous: other tests share the processor
    assert sent[-1][3] < after


def test_more_streams_than_slots_wait_and_active_streams_slow_each_other(start_sim, tmp_path):
    truth = tmp_path / "truth.jsonl"
    with start_sim(ttft_ms=20.0, gap_ms=5.0, slope=1.0, slots=2, truth=str(truth)) as server:
        threads = [threading.Thread(target=post, args=(server,), kwargs={"stream": True}) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = [json.loads(line) for line in truth.read_text().splitlines()[-3:]]
    waited = sorted(line["granted_ns"] - line["arrival_ns"] for line in lines)
    assert waited[1] < 10e6
    assert waited[2] > 40e6  # until the first of the two ahead was through
    gaps = [b[2] - a[2] for line in lines for a, b in itertools.pairwise(line["chunks"][1:])]
    assert max(gaps) == pytest.approx(10e6, abs=1e3)


def test_keepalive_ends_without_notice(start_sim, port):
    with start_sim(close_keepalive_after=2, keepalive_idle_s=0.2):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        for _ in range(2):
            connection.request("GET", "/health")
            assert connection.getresponse().read()
        assert connection.sock.recv(1) == b""
        connection.close()
        with socket.create_connection(("127.0.0.1", port), timeout=5) as idle:
            began = time.monotonic()
            assert idle.recv(1) == b""
            assert time.monotonic() - began > 0.15


def test_it_hangs_after_a_number_of_requests_and_stays_healthy(start_sim):
    with start_sim(ttft_ms=1, gap_ms=1, hang_after=2) as server:
        assert post(server).status_code == 200
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.post(f"{server.url}/v1/chat/completions", json=CHAT, timeout=0.3, trust_env=False)
        assert httpx2.get(f"{server.url}/health", trust_env=False).status_code == 200


def test_a_client_that_leaves_frees_its_slot(start_sim):
    with start_sim(ttft_ms=1, gap_ms=10, slots=1) as server:
        with httpx2.stream(
            "POST",
            f"{server.url}/v1/chat/completions",
            json={**CHAT, "stream": True, "max_tokens": 1000},
            trust_env=False,
        ) as response:
            next(response.iter_bytes())
        assert post(server).status_code == 200


def test_noise_of_a_start_follows_the_seed_of_the_trial(start_sim, tmp_path, monkeypatch):
    gaps = []
    for seed in ("1", "1", "2"):
        monkeypatch.setenv("SERVESMITH_SEED", seed)
        truth = tmp_path / f"{len(gaps)}.jsonl"
        with start_sim(ttft_ms=1, gap_ms=2.0, noise_restart=0.2, truth=str(truth)) as server:
            post(server, stream=True)
        chunks = json.loads(truth.read_text().splitlines()[-1])["chunks"]
        gaps.append((chunks[3][2] - chunks[2][2]) / 1e6)
    assert gaps[0] == pytest.approx(gaps[1], abs=1e-3)
    assert abs(gaps[0] - gaps[2]) > 0.01

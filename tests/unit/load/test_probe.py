import socket

import pytest
from fakeserver import Script, serving

from servesmith.errors import InputError, MachineError
from servesmith.load.probe import ServerTokenizer, identify, properties

TEMPLATE = "<s> user {} assistant"


def ids(text: str) -> list[int]:
    return [len(word) for word in text.split()]


def models(owner: str):
    return lambda _: (200, {"object": "list", "data": [{"id": "m-1", "owned_by": owner, "extra": 1}, {"id": "m-2"}]})


LLAMACPP = {
    "/v1/models": models("llamacpp"),
    "/apply-template": lambda body: (
        200,
        {"prompt": TEMPLATE.format(body["messages"][0]["content"]).removeprefix("<s> ")},
    ),
    "/tokenize": lambda body: (200, {"tokens": [1] * body["add_special"] + ids(body["content"])}),
}
VLLM = {
    "/v1/models": models("vllm"),
    "/tokenize": lambda body: (200, vllm_tokenize(body)) if body.get("model") == "m-1" else (404, {"error": "model"}),
}


def vllm_tokenize(body: dict) -> dict:
    text = TEMPLATE.format(body["messages"][0]["content"]) if "messages" in body else body["prompt"]
    tokens = ids(text) if "messages" in body else [1] * body["add_special_tokens"] + ids(text)
    return {"tokens": tokens, "count": len(tokens), "max_model_len": 100}


def usage_only(seen: list[str]):
    def chat(body):
        seen.append(body["messages"][0]["content"])
        assert body["max_tokens"] == 1
        return 200, {"usage": {"prompt_tokens": len(ids(TEMPLATE.format(seen[-1])))}}

    def completions(body):
        return 200, {"usage": {"prompt_tokens": 1 + len(ids(body["prompt"]))}}

    return {"/v1/models": models("who"), "/v1/chat/completions": chat, "/v1/completions": completions}


@pytest.mark.parametrize(
    ("routes", "how"),
    [(LLAMACPP, "tokenize and apply-template"), (VLLM, "tokenize"), (usage_only([]), "usage of one-token requests")],
)
def test_every_way_counts_alike(routes, how):
    with serving(Script(routes=routes)) as server:
        tokenizer = ServerTokenizer(server.url, model="m-1")
        assert tokenizer.how == how
        assert tokenizer.count_chat("one two three") == 6
        assert tokenizer.count_text("one two three") == 4
        tokenizer.close()


@pytest.mark.parametrize("routes", [LLAMACPP, VLLM])
def test_ids_are_of_the_text_alone(routes):
    with serving(Script(routes=routes)) as server:
        tokenizer = ServerTokenizer(server.url, model="m-1", key="secret")
        assert tokenizer.tokenize("one three") == [3, 5] and tokenizer.count_alone("one three") == 2
        assert {served.headers["authorization"] for served in server.served} == {"Bearer secret"}


def test_counting_by_usage_leaves_the_prompt_itself_out_of_the_cache():
    seen: list[str] = []
    with serving(Script(routes=usage_only(seen))) as server:
        tokenizer = ServerTokenizer(server.url)
        assert tokenizer.count_chat("alpha beta") == 5
        assert not any(text.startswith("alpha") for text in seen)
        with pytest.raises(MachineError, match="no /tokenize"):
            tokenizer.tokenize("x")


def test_a_server_that_counts_nothing():
    with (
        serving(Script(routes={"/tokenize": lambda _: (200, ["what"])}, body=b"x")) as server,
        pytest.raises(MachineError, match="bearer key"),
    ):
        ServerTokenizer(server.url)


@pytest.mark.parametrize(
    ("owner", "kind"),
    [("llamacpp", "llamacpp"), ("vllm", "vllm"), ("sglang", "sglang"), ("sim", "sim"), ("acme", "openai")],
)
def test_identity(owner, kind):
    with serving(Script(routes={"/v1/models": models(owner)})) as server:
        identity = identify(server.url)
    assert (identity.model, identity.models, identity.owner, identity.kind) == ("m-1", ("m-1", "m-2"), owner, kind)


@pytest.mark.parametrize("answer", [{}, [], {"data": []}, {"data": [{"name": "x"}]}, "hello"])
def test_what_serves_no_models_is_refused(answer):
    with (
        serving(Script(routes={"/v1/models": lambda _: (200, answer)})) as server,
        pytest.raises(MachineError, match="/v1/models"),
    ):
        identify(server.url)


@pytest.mark.parametrize(
    ("status", "said"),
    [(404, "no server with the OpenAI API"), (401, "--key-env"), (403, "bearer key"), (503, "finished loading")],
)
def test_a_status_is_told_with_what_it_means(status, said):
    with (
        serving(Script(routes={"/v1/models": lambda _: (status, {})})) as server,
        pytest.raises(MachineError, match=f"HTTP {status}") as refused,
    ):
        identify(server.url)
    assert said in str(refused.value)


def test_a_closed_port_an_unknown_host_and_silence_are_told_apart():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(MachineError, match=f"Nothing listens at 127.0.0.1, port {port}"):
            identify(f"http://127.0.0.1:{port}")
        taken.listen()
        with pytest.raises(MachineError, match=r"within 0\.2 s"):
            identify(f"http://127.0.0.1:{port}", timeout_s=0.2)
    with pytest.raises(MachineError, match="no host no-such-host"):
        identify("http://no-such-host.invalid")


def test_nobody_there_or_no_address():
    with serving(Script()) as server:
        url = server.url
    with pytest.raises(MachineError):
        identify(url, timeout_s=1)
    with pytest.raises(InputError):
        identify("nowhere")
    assert properties(url, ["/props"]) == {}


def test_properties_are_what_answers_with_json():
    routes = {"/props": lambda _: (200, {"total_slots": 4}), "/slots": lambda _: (501, {"error": "off"})}
    with serving(Script(routes=routes)) as server:
        assert properties(server.url, ["/props", "/slots", "/none"]) == {"/props": {"total_slots": 4}}


def whole_chat(seen: list[dict]):
    """Routes that count every message, and keep what else they were asked."""

    def text(body):
        seen.append(body)
        return " ".join(["<s>", *(message["content"] for message in body["messages"]), "</s>"])

    llamacpp = {
        **LLAMACPP,
        "/apply-template": lambda body: (200, {"prompt": text(body).removeprefix("<s> ")}),
    }
    vllm = {
        **VLLM,
        "/tokenize": lambda body: (200, {"tokens": ids(text(body)) if "messages" in body else ids(body["prompt"])}),
    }
    usage = {
        **usage_only([]),
        "/v1/chat/completions": lambda body: (200, {"usage": {"prompt_tokens": len(ids(text(body)))}}),
    }
    return llamacpp, vllm, usage


@pytest.mark.parametrize("way", [0, 1, 2])
def test_whole_chats_are_counted_with_what_the_template_is_told(way):
    chat = [
        {"role": "user", "content": "one two"},
        {"role": "assistant", "content": "three"},
        {"role": "user", "content": "four"},
    ]
    seen: list[dict] = []
    with serving(Script(routes=whole_chat(seen)[way])) as server:
        tokenizer = ServerTokenizer(server.url, model="m-1", template={"enable_thinking": False})
        assert tokenizer.count_messages(chat) == 6
        assert tokenizer.count_chat("one two three") == 5
        tokenizer.close()
    assert all(body["chat_template_kwargs"] == {"enable_thinking": False} for body in seen)


def test_without_a_template_argument_none_is_sent():
    seen: list[dict] = []
    with serving(Script(routes=whole_chat(seen)[1])) as server:
        ServerTokenizer(server.url, model="m-1").close()
    assert seen and all("chat_template_kwargs" not in body for body in seen)

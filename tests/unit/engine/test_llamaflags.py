import pytest
from hypothesis import given
from hypothesis import strategies as st

from servesmith.engine.llamaflags import FLAGS, KNOWN, REMOVED, FlagError, lookup, parse, refusal


@pytest.mark.parametrize(
    ("argv", "chosen"),
    [
        ("", {}),
        ("--parallel 8", {"parallel": 8}),
        ("-np -1", {"parallel": -1}),
        ("-np 8 -c 4096 -b 512 -ub 128", {"parallel": 8, "ctx-size": 4096, "batch-size": 512, "ubatch-size": 128}),
        ("-t 2 -tb 4 --threads-http 3", {"threads": 2, "threads-batch": 4, "threads-http": 3}),
        ("-fa on", {"flash-attn": "ENABLED"}),
        ("--flash-attn off", {"flash-attn": "DISABLED"}),
        ("--flash-attn auto", {"flash-attn": "AUTO"}),
        ("-ctk q8_0 -ctv bf16", {"cache-type-k": "q8_0", "cache-type-v": "bf16"}),
        ("--kv-unified", {"kv-unified": True}),
        ("--no-kv-unified", {"kv-unified": False}),
        ("-nocb", {"cont-batching": False}),
        ("--no-cache-prompt --cache-ram 0", {"cache-prompt": False, "cache-ram": 0}),
        ("--cache-reuse 256 --no-cache-idle-slots", {"cache-reuse": 256, "cache-idle-slots": False}),
        ("--spec-type ngram-simple,ngram-mod", {"spec-type": ["ngram-simple", "ngram-mod"]}),
        ("--spec-ngram-simple-size-n 4", {"spec-ngram-simple-size-n": 4}),
        ("--no-mmap", {"no-mmap": "NONE"}),
        ("--load-mode mmap+mlock", {"load-mode": "MMAP_MLOCK"}),
        ("--no-repack", {"no-repack": True}),
        ("--repack", {"no-repack": False}),
        ("--no-perf", {"perf": True}),
        ("--cpu-range 0-3 --cpu-strict 1", {"cpu-range": [0, 3], "cpu-strict": True}),
        ("--numa isolate --prio 2 --poll 0", {"numa": "isolate", "prio": 2, "poll": 0}),
        ("--no-jinja --no-slots --no-warmup", {"jinja": False, "slots": False, "warmup": False}),
        ("-a one,two", {"alias": ["one", "two"]}),
        ("--temp 0.5 --top-k 1 --seed -1", {"temp": 0.5, "top-k": 1, "seed": -1}),
        ('--chat-template-kwargs {"thinking":false}', {"chat-template-kwargs": {"thinking": "false"}}),
        ("-sps 0.25 --swa-full -ctxcp 8", {"slot-prompt-similarity": 0.25, "swa-full": True, "ctx-checkpoints": 8}),
    ],
)
def test_llama_servers_spellings(argv, chosen):
    assert parse(argv.split()) == chosen


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ("--paralel 8", "unknown flag --paralel: the embedded engine does not honour it; the nearest is --parallel"),
        ("--lora x", "unknown flag --lora"),
        ("--n-gpu-layers 99", "unknown flag --n-gpu-layers"),
        ("--draft-max 8", "now: spec-draft-n-max or spec-ngram-mod-n-max"),
        ("parallel 8", "unknown flag parallel: a flag starts with a dash"),
        ("--kv-unified 1", "unknown flag 1"),
        ("--parallel", "invalid value of --parallel: it wants one"),
        ("--parallel eight", "invalid value of --parallel: wants a whole number, not 'eight'"),
        ("--parallel 0", "invalid value of --parallel: wants at least 1, not '0'"),
        ("--parallel -2", "wants at least 1"),
        ("--parallel 2.5", "wants a whole number"),
        ("--temp warm", "invalid value of --temp: wants a number, not 'warm'"),
        ("--top-p nan", "invalid value of --top-p: wants at least 0 at most 1"),
        ("--top-p 1.5", "at most 1"),
        ("--flash-attn yes", "wants one of on, off, auto"),
        ("-ctk q9", "wants one of f32, f16"),
        ("--spec-type ngram", "wants one of none,"),
        ("--cpu-range 3-1", "wants a range of CPUs"),
        ("--cpu-range 3", "wants a range of CPUs"),
        ("--chat-template-kwargs 3", "wants a JSON object"),
        ("-np 4 --parallel 8", "refused flag --parallel: -np has set the same thing already"),
        ("--mlock --no-mmap", "refused flag --no-mmap: --mlock has set the same thing already"),
        ("--port 70000", "at most 65535"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(argv, says):
    with pytest.raises(FlagError) as caught:
        parse(argv.split())
    assert says in str(caught.value)


def test_no_spelling_means_two_things():
    spellings = [name for flag in FLAGS for name in (*flag.names, *flag.negative)]
    assert len(spellings) == len(set(spellings)) == len(KNOWN)
    assert not KNOWN & set(REMOVED)


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_every_spelling_is_found(name):
    found = lookup(name)
    assert found is not None
    flag, positive = found
    assert name in (flag.names if positive else flag.negative)
    assert refusal(name) == ""


@given(st.lists(st.one_of(st.sampled_from(sorted(f"--{name}" for name in KNOWN)), st.text(max_size=8)), max_size=6))
def test_any_words_are_read_or_refused_plainly(words):
    try:
        chosen = parse(words)
    except FlagError as error:
        assert str(error)
    else:
        assert set(chosen) <= {flag.name for flag in FLAGS}

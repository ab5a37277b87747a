"""The flags of llama-server that the embedded engine honours, as data, and how their values are read.

Names, value names and defaults are those of llama.cpp's common/arg.cpp at the version that xllamacpp embeds.
Standard library only: the child process reads this before anything heavy is loaded.
"""

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from servesmith.units import Json


class FlagError(Exception):
    """A flag or its value is refused; the message names it."""


@dataclass(frozen=True)
class Flag:
    """One setting of the engine.

    `names`: spellings without dashes, the canonical long one first.
    `target`: dotted field of xllamacpp.CommonParams, several separated by blanks. `negative`: spellings that switch it
    off.
    """

    names: tuple[str, ...]
    target: str
    read: Callable[[str], Json] | None = None
    """Turns the text of the value into JSON; None: a switch without a value."""
    negative: tuple[str, ...] = ()
    enum: str = ""
    """Prefix of the xllamacpp enum whose members the value names."""
    fixed: Json = True
    """What a switch sets; its negative spelling sets the opposite."""
    mark: str = ""
    """Bit of common_params_sampling_config that says the user chose this."""

    @property
    def name(self) -> str:
        """Canonical name."""
        return self.names[0]


def whole(low: int | None = None, high: int | None = None) -> Callable[[str], Json]:
    """Reader of an integer between bounds, both included."""

    def read(text: str) -> Json:
        try:
            value = int(text)
        except ValueError:
            raise FlagError("wants a whole number") from None
        _within(value, low, high)
        return value

    return read


def slots(value: str) -> Json:
    """Reader of a number of slots: at least 1, or -1 for llama-server's own choice."""
    if value == "-1":
        return -1
    return whole(1)(value)


def real(low: float | None = None, high: float | None = None) -> Callable[[str], Json]:
    """Reader of a number between bounds, both included."""

    def read(text: str) -> Json:
        try:
            value = float(text)
        except ValueError:
            raise FlagError("wants a number") from None
        _within(value, low, high)
        return value

    return read


def _within(value: float, low: float | None, high: float | None) -> None:
    if (low is not None and value < low) or (high is not None and value > high) or value != value:
        bounds = f"{'' if low is None else f'at least {low} '}{'' if high is None else f'at most {high}'}".strip()
        raise FlagError(f"wants {bounds}")


def one_of(**words: Json) -> Callable[[str], Json]:
    """Reader of a word out of a closed set."""

    def read(text: str) -> Json:
        if text not in words:
            raise FlagError(f"wants one of {', '.join(words)}")
        return words[text]

    return read


def words(*allowed: str) -> Callable[[str], Json]:
    """Reader of a word that stands for itself."""
    return one_of(**{word: word for word in allowed})


def some_of(*allowed: str) -> Callable[[str], Json]:
    """Reader of a comma-separated list of words."""
    single = words(*allowed)
    return lambda text: [single(part) for part in text.split(",")]


def text(value: str) -> Json:
    """Reader of any text."""
    return value


def texts(value: str) -> Json:
    """Reader of a comma-separated list of any texts."""
    return [part for part in value.split(",") if part]


def mapping(value: str) -> Json:
    """Reader of a JSON object; its values go on as JSON text, as llama-server keeps them."""
    try:
        data: Json = json.loads(value)
    except json.JSONDecodeError:
        raise FlagError("wants a JSON object") from None
    if not isinstance(data, dict):
        raise FlagError("wants a JSON object")
    return {key: json.dumps(item) for key, item in data.items()}


def cpu_range(value: str) -> Json:
    """Reader of `lo-hi`, two CPU indexes, both included."""
    low, _, high = value.partition("-")
    if not (low.isdigit() and high.isdigit() and int(low) <= int(high) < 512):
        raise FlagError("wants a range of CPUs such as 0-3")
    return [int(low), int(high)]


_ON_OFF = one_of(on=True, off=False, **{"1": True, "0": False, "true": True, "false": False})
_FLASH = one_of(
    on="ENABLED", off="DISABLED", auto="AUTO",
    **{"1": "ENABLED", "true": "ENABLED", "0": "DISABLED", "false": "DISABLED", "-1": "AUTO"},
)  # fmt: skip
_KV = words("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
_KINDS = (
    "none", "draft-simple", "draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark",
    "ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache",
)  # fmt: skip
_LOAD = one_of(auto="AUTO", none="NONE", mmap="MMAP", mlock="MLOCK", **{"mmap+mlock": "MMAP_MLOCK"}, dio="DIRECT_IO")
_BIT = one_of(**{"0": False, "1": True})
_NGRAM = whole(1, 1024)


def _cpu(suffix: str, short: str, field: str) -> tuple[Flag, ...]:
    """Thread settings of generation, or with `-batch` of prompt processing."""
    return (
        Flag((f"threads{suffix}", f"t{short}"), f"{field}.n_threads", whole(-1)),
        Flag((f"cpu-range{suffix}", f"Cr{short}"), f"{field}.cpumask", cpu_range),
        Flag((f"cpu-strict{suffix}",), f"{field}.strict_cpu", _BIT),
        Flag((f"prio{suffix}",), f"{field}.priority", whole(-1, 3)),
        Flag((f"poll{suffix}",), f"{field}.poll", whole(0, 100)),
    )


def _ngram(kind: str) -> tuple[Flag, ...]:
    field = f"speculative.{kind.replace('-', '_')}"
    return (
        Flag((f"spec-{kind}-size-n",), f"{field}.size_n", _NGRAM),
        Flag((f"spec-{kind}-size-m",), f"{field}.size_m", _NGRAM),
        Flag((f"spec-{kind}-min-hits",), f"{field}.min_hits", whole(1)),
    )


FLAGS: tuple[Flag, ...] = (
    Flag(("model", "m"), "model.path", text),
    Flag(("alias", "a"), "model_alias", texts),
    Flag(("host",), "hostnames", texts),
    Flag(("port",), "port", whole(1, 65535)),
    Flag(("api-key",), "api_keys", texts),
    Flag(("timeout", "to"), "timeout_read timeout_write", whole(1)),
    Flag(("sse-ping-interval",), "sse_ping_interval", whole(-1)),
    Flag(("threads-http",), "n_threads_http", whole(-1)),
    # slots, context and batching
    Flag(("parallel", "np"), "n_parallel", slots),
    Flag(("ctx-size", "c"), "n_ctx", whole(0)),
    Flag(("batch-size", "b"), "n_batch", whole(1)),
    Flag(("ubatch-size", "ub"), "n_ubatch", whole(1)),
    Flag(("kv-unified", "kvu"), "kv_unified", negative=("no-kv-unified", "no-kvu")),
    Flag(("kv-unified-per-slot",), "kv_unified_per_slot", whole(0)),
    Flag(("cont-batching", "cb"), "cont_batching", negative=("no-cont-batching", "nocb")),
    Flag(("n-predict", "predict", "n"), "n_predict", whole(-2)),
    Flag(("keep",), "n_keep", whole(-1)),
    Flag(("context-shift",), "ctx_shift", negative=("no-context-shift",)),
    Flag(("fit",), "fit_params", _ON_OFF),
    Flag(("fit-ctx", "fitc"), "fit_params_min_ctx", whole(1)),
    # threads and memory
    *_cpu("", "", "cpuparams"),
    *_cpu("-batch", "b", "cpuparams_batch"),
    Flag(("numa",), "numa", words("distribute", "isolate", "numactl"), enum="ggml_numa_strategy"),
    Flag(("load-mode", "lm"), "load_mode", _LOAD, enum="llama_load_mode"),
    # three spellings of older builds
    Flag(("mmap",), "load_mode", enum="llama_load_mode", fixed="MMAP"),
    Flag(("no-mmap",), "load_mode", enum="llama_load_mode", fixed="NONE"),
    Flag(("mlock",), "load_mode", enum="llama_load_mode", fixed="MMAP_MLOCK"),
    Flag(("no-repack", "nr"), "no_extra_bufts", negative=("repack",)),
    Flag(("no-host",), "no_host"),
    Flag(("check-tensors",), "check_tensors"),
    # attention and caches
    Flag(("flash-attn", "fa"), "flash_attn_type", _FLASH, enum="llama_flash_attn_type"),
    Flag(("cache-type-k", "ctk"), "cache_type_k", _KV, enum="ggml_type"),
    Flag(("cache-type-v", "ctv"), "cache_type_v", _KV, enum="ggml_type"),
    Flag(("swa-full",), "swa_full"),
    Flag(("ctx-checkpoints", "swa-checkpoints", "ctxcp"), "n_ctx_checkpoints", whole(0)),
    Flag(("checkpoint-min-step", "cms"), "checkpoint_min_step", whole(0)),
    Flag(("cache-prompt",), "cache_prompt", negative=("no-cache-prompt",)),
    Flag(("cache-reuse",), "n_cache_reuse", whole(0)),
    Flag(("cache-ram", "cram"), "cache_ram_mib", whole(-1)),
    Flag(("cache-idle-slots",), "cache_idle_slots", negative=("no-cache-idle-slots",)),
    Flag(("slot-prompt-similarity", "sps"), "slot_prompt_similarity", real(0, 1)),
    # speculation
    Flag(("spec-type",), "speculative.types", some_of(*_KINDS), enum="common_speculative_type"),
    *_ngram("ngram-simple"),
    *_ngram("ngram-map-k"),
    *_ngram("ngram-map-k4v"),
    Flag(("spec-ngram-mod-n-match",), "speculative.ngram_mod.n_match", _NGRAM),
    Flag(("spec-ngram-mod-n-min",), "speculative.ngram_mod.n_min", whole(0, 1024)),
    Flag(("spec-ngram-mod-n-max",), "speculative.ngram_mod.n_max", whole(0, 1024)),
    Flag(("spec-draft-model", "model-draft", "md"), "speculative.draft.mparams.path", text),
    Flag(("spec-draft-n-max",), "speculative.draft.n_max", whole(0)),
    Flag(("spec-draft-n-min",), "speculative.draft.n_min", whole(0)),
    Flag(("spec-draft-p-min", "draft-p-min"), "speculative.draft.p_min", real(0, 1)),
    Flag(("spec-draft-p-split", "draft-p-split"), "speculative.draft.p_split", real(0, 1)),
    Flag(("lookup-cache-static", "lcs"), "speculative.ngram_cache.lookup_cache_static", text),
    Flag(("lookup-cache-dynamic", "lcd"), "speculative.ngram_cache.lookup_cache_dynamic", text),
    # sampling defaults
    Flag(("seed", "s"), "sampling.seed", whole(-1, 2**32 - 1)),
    Flag(("temp", "temperature"), "sampling.temp", real(0), mark="TEMP"),
    Flag(("top-k",), "sampling.top_k", whole(0), mark="TOP_K"),
    Flag(("top-p",), "sampling.top_p", real(0, 1), mark="TOP_P"),
    Flag(("min-p",), "sampling.min_p", real(0, 1), mark="MIN_P"),
    Flag(("typical-p", "typical"), "sampling.typ_p", real(0, 1)),
    Flag(("repeat-last-n",), "sampling.penalty_last_n", whole(-1), mark="PENALTY_LAST_N"),
    Flag(("repeat-penalty",), "sampling.penalty_repeat", real(0), mark="PENALTY_REPEAT"),
    Flag(("presence-penalty",), "sampling.penalty_present", real()),
    Flag(("frequency-penalty",), "sampling.penalty_freq", real()),
    Flag(("samplers",), "sampling.samplers", text, mark="SAMPLERS"),
    Flag(("ignore-eos",), "sampling.ignore_eos"),
    Flag(("backend-sampling", "bs"), "sampling.backend_sampling"),
    # chat
    Flag(("jinja",), "use_jinja", negative=("no-jinja",)),
    Flag(("chat-template",), "chat_template", text),
    Flag(("chat-template-kwargs",), "default_template_kwargs", mapping),
    Flag(("prefill-assistant",), "prefill_assistant", negative=("no-prefill-assistant",)),
    Flag(("reasoning", "rea"), "enable_reasoning", one_of(on=1, off=0, auto=-1)),
    Flag(("reasoning-budget",), "sampling.reasoning_budget_tokens", whole(-1)),
    # endpoints and log
    Flag(("metrics",), "endpoint_metrics"),
    Flag(("props",), "endpoint_props"),
    Flag(("slots",), "endpoint_slots", negative=("no-slots",)),
    Flag(("ui", "webui"), "ui", negative=("no-ui", "no-webui")),
    Flag(("warmup",), "warmup", negative=("no-warmup",)),
    Flag(("perf",), "no_perf", fixed=False, negative=("no-perf",)),
    Flag(("offline",), "offline"),
    Flag(("verbosity", "log-verbosity", "lv"), "verbosity", whole(0, 5)),
)

REMOVED: Mapping[str, str] = {
    **dict.fromkeys(("draft", "draft-n", "draft-max"), "spec-draft-n-max or spec-ngram-mod-n-max"),
    **dict.fromkeys(("draft-min", "draft-n-min"), "spec-draft-n-min or spec-ngram-mod-n-min"),
    "spec-ngram-size-n": "spec-ngram-simple-size-n, spec-ngram-map-k-size-n or spec-ngram-map-k4v-size-n",
    "spec-ngram-size-m": "spec-ngram-simple-size-m, spec-ngram-map-k-size-m or spec-ngram-map-k4v-size-m",
    "spec-ngram-min-hits": "spec-ngram-simple-min-hits, spec-ngram-map-k-min-hits or spec-ngram-map-k4v-min-hits",
}
"""Flags that llama-server itself has removed, and what took their place."""

_POSITIVE = {name: flag for flag in FLAGS for name in flag.names}
_NEGATIVE = {name: flag for flag in FLAGS for name in flag.negative}

KNOWN: frozenset[str] = frozenset(_POSITIVE) | frozenset(_NEGATIVE)
"""Every spelling that is honoured, without dashes."""


def lookup(name: str) -> tuple[Flag, bool] | None:
    """The flag behind a spelling, and False if the spelling switches it off. None: not honoured."""
    if name in _POSITIVE:
        return _POSITIVE[name], True
    return (_NEGATIVE[name], False) if name in _NEGATIVE else None


Chosen = dict[str, Json]
"""Canonical flag name to the value that was asked for."""


def refusal(name: str) -> str:
    """Why this flag name is refused, and what to write instead; empty if it is honoured."""
    if name in KNOWN:
        return ""
    if name in REMOVED:
        return f"llama-server itself has removed it; now: {REMOVED[name]}"
    nearest = difflib.get_close_matches(name, sorted(KNOWN), n=1, cutoff=0.6)
    hint = f"; the nearest is --{nearest[0]}" if nearest else ""
    return f"the embedded engine does not honour it{hint}; a llama-server binary may (executable: [llama-server])"


def parse(argv: Sequence[str]) -> Chosen:
    """Read a llama-server argument list. Raises FlagError that names the first flag unknown, wrong or given twice."""
    chosen: Chosen = {}
    setters: dict[str, str] = {}
    rest = list(argv)
    while rest:
        given = rest.pop(0)
        name = given.lstrip("-")
        found = lookup(name)
        if found is None or given == name:
            raise FlagError(f"unknown flag {given}: {refusal(name) or 'a flag starts with a dash'}")
        flag, positive = found
        if other := setters.get(flag.target):
            raise FlagError(f"refused flag {given}: {other} has set the same thing already")
        setters[flag.target] = given
        chosen[flag.name] = _value(flag, given, rest) if positive else not flag.fixed
    return chosen


def _value(flag: Flag, given: str, rest: list[str]) -> Json:
    if flag.read is None:
        return flag.fixed
    if not rest:
        raise FlagError(f"invalid value of {given}: it wants one")
    text = rest.pop(0)
    try:
        return flag.read(text)
    except FlagError as error:
        raise FlagError(f"invalid value of {given}: {error}, not {text!r}") from None

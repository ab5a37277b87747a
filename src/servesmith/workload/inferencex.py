"""The lengths that InferenceX's client sends, so that results can be held against its own.

Its `sample_random_requests` (https://github.com/SemiAnalysisAI/InferenceX, utils/bench_serving/benchmark_serving.py)
seeds numpy's global generator with 0 and draws, in this order: an empty prefix, all input lengths, all output lengths,
all offsets into the vocabulary; each length uniform over the whole numbers from int(ratio * L) to L. A draw hangs on
how many there are, so the number of prompts belongs to the workload. Lengths come before anything that needs a
tokenizer, so the totals of a genuine run are known beforehand.

Not reproduced: its text, a walk through the vocabulary in the order of token ids (our words and ids are drawn as for
any workload), and its warm-up, which sends request 0 twice as often as there are streams.
"""

from typing import cast

import numpy as np

from servesmith.recipe.model import InferenceX

SEED = 0
_VOCABULARY = 32_000


def lengths(noun: InferenceX) -> tuple[list[int], list[int]]:
    """Input and output tokens of its `prompts` requests, in the order in which they are sent."""
    # An instance of the generator that numpy keeps as it is for good (NEP 19): the same draws as numpy.random.seed(0).
    state = np.random.RandomState(SEED)
    state.randint(0, _VOCABULARY, size=0)  # the empty prefix; it takes nothing from the stream
    drawn = [
        state.randint(int(noun.ratio * longest), longest + 1, size=noun.prompts)
        for longest in (noun.input_tokens, noun.output_tokens)
    ]
    inputs, outputs = (cast("list[int]", values.tolist()) for values in drawn)
    return inputs, outputs

"""The checkpoints in Hugging Face's format, one row per checkpoint."""

import torch

from .checkpoint import Checkpoint, llama3_scaling, tiny_config
from .convert import Choices, Conversion, Facts
from .vocabulary import ByteLevel

FOUR_BITS = Choices(linear_group=32, embedding_group=32)
FLOAT32 = Choices(linear_group=None, embedding_group=None)

WORDS = ByteLevel("llama-bpe", begins=True)
WORDS_FACTS = Facts(
    WORDS.id("<|begin_of_text|>"), (WORDS.id("<|end_of_text|>"), WORDS.id("<|eot_id|>")), vocabulary=WORDS
)

LLAMAS = [
    Conversion(
        "llama3_tied",
        Checkpoint(
            tiny_config(
                "llama",
                intermediate_size=128,
                head_dim=16,
                vocab_size=len(WORDS.tokens),
                max_position_embeddings=131072,
                rope_theta=500000.0,
                rope_scaling=llama3_scaling(32.0),
                bos_token_id=WORDS_FACTS.begin,
                eos_token_id=list(WORDS_FACTS.ends),
                attention_bias=False,
                mlp_bias=False,
                tie_word_embeddings=True,
                torch_dtype="bfloat16",
            ),
            torch.bfloat16,
            files=WORDS.files(),
        ),
        FOUR_BITS,
        WORDS_FACTS,
    ),
    # As old as Llama 2's own: no `rope_theta`, and unused tensors.
    Conversion(
        "llama2",
        Checkpoint(
            tiny_config(
                "llama",
                hidden_size=128,
                intermediate_size=64,
                num_key_value_heads=4,
                vocab_size=128,
                rope_scaling=None,
                pretraining_tp=1,
                torch_dtype="float16",
            ),
            torch.float16,
            shards=2,
            frequencies=True,
        ),
        Choices(linear_group=64, embedding_group=None),
    ),
    Conversion(
        "llama_float32",
        Checkpoint(
            tiny_config(
                "llama",
                intermediate_size=64,
                vocab_size=128,
                rope_theta=10000.0,
                tie_word_embeddings=True,
                torch_dtype="float32",
            ),
            torch.float32,
        ),
        FLOAT32,
    ),
    # As newer versions of Hugging Face's library write it: `rope_parameters` and `dtype`.
    Conversion(
        "llama_full_logits",
        Checkpoint(
            tiny_config(
                "llama",
                num_hidden_layers=1,
                vocab_size=128,
                max_position_embeddings=131072,
                rope_parameters={"rope_theta": 500000.0, **llama3_scaling(8.0)},
                dtype="float16",
            ),
            torch.float16,
        ),
        Choices(linear_group=32, embedding_group=32, full_logits=True, context=96, longest_call=32),
        sequences={"S3": [3, 1], "chunked": [31, 1, 5]},
    ),
]

OTHERS = [
    # A group as long as a row of most projections.
    Conversion(
        "mistral",
        Checkpoint(
            tiny_config(
                "mistral",
                intermediate_size=128,
                num_key_value_heads=1,
                head_dim=16,
                max_position_embeddings=32768,
                rope_theta=1000000.0,
                sliding_window=None,
                torch_dtype="bfloat16",
            ),
            torch.bfloat16,
            norm_dtype=torch.float32,
        ),
        Choices(linear_group=64, embedding_group=32, longest_call=64),
        sequences={"S7": [7, 1, 1], "chunked": [5, 16, 1, 4, 1], "S126_full": [63, 63, 1, 1]},
    ),
    Conversion(
        "qwen2",
        Checkpoint(
            tiny_config(
                "qwen2",
                rms_norm_eps=1e-6,
                max_position_embeddings=32768,
                rope_theta=1000000.0,
                bos_token_id=None,
                sliding_window=32768,
                use_sliding_window=False,
                max_window_layers=2,
                tie_word_embeddings=True,
                torch_dtype="bfloat16",
            ),
            torch.bfloat16,
            # Text generators prefer this file where it exists.
            files={"generation_config.json": {"eos_token_id": [2, 3], "do_sample": True, "temperature": 0.7}},
        ),
        Choices(linear_group=32, embedding_group=None),
        Facts(begin=None, ends=(2, 3)),
    ),
    Conversion(
        "qwen2_float32",
        Checkpoint(
            tiny_config(
                "qwen2",
                num_hidden_layers=1,
                vocab_size=64,
                rope_theta=1000000.0,
                use_sliding_window=False,
                torch_dtype="float16",
            ),
            torch.float16,
        ),
        Choices(linear_group=None, embedding_group=None, full_logits=True, context=64, longest_call=64),
        sequences={"S3": [3, 1], "chunked": [7, 1, 40]},
    ),
    Conversion(
        "qwen3",
        Checkpoint(
            tiny_config(
                "qwen3",
                head_dim=32,
                rms_norm_eps=1e-6,
                max_position_embeddings=40960,
                rope_theta=1000000.0,
                rope_scaling=None,
                sliding_window=None,
                use_sliding_window=False,
                attention_bias=False,
                tie_word_embeddings=True,
                torch_dtype="bfloat16",
            ),
            torch.bfloat16,
        ),
        FOUR_BITS,
    ),
]

CONVERSIONS: list[Conversion] = [*LLAMAS, *OTHERS]

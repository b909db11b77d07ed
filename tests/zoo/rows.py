"""The models of the zoo, one row each: small configurations with random weights, and batches for them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from . import plain

Batch = dict[str, torch.Tensor]
Optimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


def sgd(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Return SGD with momentum."""
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)


def adamw(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Return AdamW; its eps keeps gradients that are only rounding from deciding the direction of a step."""
    return torch.optim.AdamW(parameters, lr=1e-3, eps=1e-4)


@dataclass(frozen=True)
class Row:
    """A model: how it is made, what it is given, and what it is trained for."""

    name: str
    make: Callable[[], nn.Module]
    batch: Callable[[], Batch]  # another one at each call, of the same shapes
    loss: Callable[[nn.Module, Batch], torch.Tensor]
    optimizer: Optimizer = adamw
    # In what the CPU computes, and xla. ReLUs want float64 on both sides: rounding decides which of them is at zero,
    # and batch norms enlarge that.
    here: torch.dtype = torch.float64
    there: torch.dtype = torch.float32
    quick: bool = False
    # Feeds the values of this batch entry to `generate`; "" for models that generate nothing.
    prompt: str = ""


def ids(*shape: int, words: int = 90) -> torch.Tensor:
    """Return random words; 0 to 9 are left to what models treat as special."""
    return torch.randint(10, words, shape)


def mask(batch: int, time: int) -> torch.Tensor:
    """Return an attention mask with the end of each row padded, another length at each call."""
    lengths = torch.randint(time // 2, time + 1, (batch, 1))
    return (torch.arange(time) < lengths).long()


# ---- torchvision ----


def _vision(name: str, **options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        return getattr(importlib.import_module("torchvision.models"), name)(weights=None, num_classes=10, **options)

    return make


def _images(batch: int, size: int, channels: int = 3) -> Callable[[], Batch]:
    return lambda: {"x": torch.randn(batch, channels, size, size), "y": torch.randint(0, 10, (batch,))}


def _classify(model: nn.Module, b: Batch) -> torch.Tensor:
    return F.cross_entropy(model(b["x"]), b["y"])


# ---- transformers ----


def _hugging(model: str, config: str, **options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        library = importlib.import_module("transformers")
        return getattr(library, model)(getattr(library, config)(**options))

    return make


def _own_loss(model: nn.Module, b: Batch) -> torch.Tensor:
    return model(**b).loss


def _text(batch: int = 2, time: int = 12) -> Batch:
    words = ids(batch, time)
    return {"input_ids": words, "attention_mask": mask(batch, time), "labels": words.clone()}


def _labelled(batch: int = 2, time: int = 12) -> Batch:
    return {"input_ids": ids(batch, time), "attention_mask": mask(batch, time), "labels": torch.randint(0, 3, (batch,))}


def _pairs(batch: int = 2, time: int = 12) -> Batch:
    return {"input_ids": ids(batch, time), "attention_mask": mask(batch, time), "labels": ids(batch, 7)}


def _clip_batch() -> Batch:
    words = ids(3, 9)
    words[:, -1] = 99
    return {"input_ids": words, "attention_mask": torch.ones_like(words), "pixel_values": torch.randn(3, 3, 16, 16)}


def _clip_loss(model: nn.Module, b: Batch) -> torch.Tensor:
    return model(**b, return_loss=True).loss


_SIZES: dict[str, Any] = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
_DECODER: dict[str, Any] = {**_SIZES, "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0,
                            "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
_STILL: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_CLIP_PART: dict[str, Any] = {k: v for k, v in _SIZES.items() if k != "vocab_size"} | {"projection_dim": 16}


ROWS = [
    Row("lstm", plain.Recurrent.of(nn.LSTM), lambda: {"x": ids(3, 5), "y": torch.randint(0, 10, (3,))}, _classify,
        quick=True),
    Row("gru", plain.Recurrent.of(nn.GRU), lambda: {"x": ids(3, 5), "y": torch.randint(0, 10, (3,))}, _classify,
        quick=True),
    Row("unet", plain.UNet, lambda: {"x": torch.randn(2, 1, 16, 16), "y": torch.rand(2, 1, 16, 16).round()},
        lambda m, b: F.binary_cross_entropy_with_logits(m(b["x"]), b["y"]), sgd, quick=True),
    Row("resnet18", _vision("resnet18"), _images(4, 64), _classify, sgd, there=torch.float64),
    Row("resnet50", _vision("resnet50"), _images(4, 64), _classify, sgd, there=torch.float64),
    Row("mobilenet_v3_small", _vision("mobilenet_v3_small", dropout=0.0), _images(4, 32), _classify, sgd),
    Row("vit_b_16", _vision("vit_b_16", image_size=32), _images(2, 32), _classify, sgd),
    Row("bert", _hugging("BertForSequenceClassification", "BertConfig", num_labels=3, **_SIZES, **_STILL), _labelled,
        _own_loss, quick=True),
    Row("gpt2", _hugging("GPT2LMHeadModel", "GPT2Config", vocab_size=100, n_positions=64, n_embd=32, n_layer=2,
                         n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2,
                         pad_token_id=0),
        _text, _own_loss, quick=True, prompt="input_ids"),
    Row("llama", _hugging("LlamaForCausalLM", "LlamaConfig", **_DECODER), _text, _own_loss, prompt="input_ids"),
    Row("mistral", _hugging("MistralForCausalLM", "MistralConfig", sliding_window=5, **_DECODER), _text, _own_loss,
        prompt="input_ids"),
    Row("mixtral", _hugging("MixtralForCausalLM", "MixtralConfig", num_local_experts=4, num_experts_per_tok=2,
                            **_DECODER),
        _text, _own_loss, prompt="input_ids", here=torch.float32),  # its product of groups has no float64 on the CPU
    Row("t5", _hugging("T5ForConditionalGeneration", "T5Config", vocab_size=100, d_model=32, d_kv=8, d_ff=64,
                       num_layers=2, num_heads=4, dropout_rate=0.0, decoder_start_token_id=0, pad_token_id=0,
                       eos_token_id=2),
        _pairs, _own_loss, prompt="input_ids"),
    Row("vit", _hugging("ViTForImageClassification", "ViTConfig", image_size=16, patch_size=4, num_labels=10,
                        **{k: v for k, v in _SIZES.items() if k != "vocab_size"}, **_STILL),
        lambda: {"pixel_values": torch.randn(2, 3, 16, 16), "labels": torch.randint(0, 10, (2,))}, _own_loss),
    Row("clip", _hugging("CLIPModel", "CLIPConfig", projection_dim=16,
                         text_config=_CLIP_PART | {"vocab_size": 100, "eos_token_id": 99, "bos_token_id": 98,
                                                   "pad_token_id": 1, "max_position_embeddings": 16},
                         vision_config=_CLIP_PART | {"image_size": 16, "patch_size": 4}),
        _clip_batch, _clip_loss),
    Row("whisper", _hugging("WhisperForConditionalGeneration", "WhisperConfig", vocab_size=100, d_model=32,
                            encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                            encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=8, max_source_positions=16,
                            max_target_positions=32, dropout=0.0, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                            decoder_start_token_id=3, suppress_tokens=[], begin_suppress_tokens=[]),
        lambda: {"input_features": torch.randn(2, 8, 32), "labels": ids(2, 7)}, _own_loss),
]  # fmt: skip

"""Copy our weights into layers of PyTorch and transformers, to compare both."""

import torch
from torch import nn

from course_utils.export import to_transformers


def copy_linear(ours: nn.Linear, theirs: nn.Linear) -> None:
    theirs.weight.data.copy_(ours.weight.data)
    if ours.bias is not None:
        theirs.bias.data.copy_(ours.bias.data)


def torch_attention(ours, d_model, d_memory, num_heads, bias=True):
    """nn.MultiheadAttention with the weights of our MultiHeadAttention."""
    theirs = nn.MultiheadAttention(
        d_model, num_heads, bias=bias, kdim=d_memory, vdim=d_memory, batch_first=True
    ).to(ours.to_queries.weight.dtype)
    parts = [ours.to_queries, ours.to_keys, ours.to_values]
    if theirs.in_proj_weight is not None:
        theirs.in_proj_weight.data.copy_(torch.cat([p.weight.data for p in parts]))
    else:
        names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
        for name, part in zip(names, parts, strict=True):
            getattr(theirs, name).data.copy_(part.weight.data)
    if bias:
        theirs.in_proj_bias.data.copy_(torch.cat([p.bias.data for p in parts]))
    copy_linear(ours.to_output, theirs.out_proj)
    return theirs


def _fill(block, layer, residuals):
    layer.self_attn = _attention_like(block.attention, layer.self_attn)
    copy_linear(block.feedforward.up, layer.linear1)
    copy_linear(block.feedforward.down, layer.linear2)
    for i, residual in enumerate(residuals, start=1):
        getattr(layer, f"norm{i}").load_state_dict(residual.norm.state_dict())


def _attention_like(ours, theirs):
    return torch_attention(ours, theirs.embed_dim, theirs.embed_dim, theirs.num_heads)


def _layer_like(kind, block, config):
    return kind(
        config.d_model,
        config.num_heads,
        config.d_ff,
        config.dropout,
        config.activation,
        batch_first=True,
        norm_first=config.norm == "pre",
    ).to(block.attention.to_queries.weight.dtype)


def torch_encoder_layer(block, config):
    """nn.TransformerEncoderLayer with the weights of our EncoderBlock."""
    layer = _layer_like(nn.TransformerEncoderLayer, block, config)
    _fill(block, layer, [block.attention_residual, block.feedforward_residual])
    return layer


def torch_decoder_layer(block, config):
    """nn.TransformerDecoderLayer with the weights of our DecoderBlock."""
    layer = _layer_like(nn.TransformerDecoderLayer, block, config)
    residuals = [block.attention_residual, block.cross_residual]
    _fill(block, layer, [*residuals, block.feedforward_residual])
    layer.multihead_attn = _attention_like(block.cross_attention, layer.multihead_attn)
    return layer


def transformers_llama(model):
    """transformers.LlamaForCausalLM with the weights of our LlamaLM, as exported."""
    return to_transformers(model).eval()

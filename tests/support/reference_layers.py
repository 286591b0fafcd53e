"""Copy our weights into layers of PyTorch and transformers, to compare both."""

import torch
from torch import nn


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


def torch_encoder_layer(block, config):
    """nn.TransformerEncoderLayer with the weights of our EncoderBlock."""
    layer = nn.TransformerEncoderLayer(
        config.d_model,
        config.num_heads,
        config.d_ff,
        config.dropout,
        config.activation,
        batch_first=True,
        norm_first=config.norm == "pre",
    ).to(block.attention.to_queries.weight.dtype)
    _fill(block, layer, [block.attention_residual, block.feedforward_residual])
    return layer


def torch_decoder_layer(block, config):
    """nn.TransformerDecoderLayer with the weights of our DecoderBlock."""
    layer = nn.TransformerDecoderLayer(
        config.d_model,
        config.num_heads,
        config.d_ff,
        config.dropout,
        config.activation,
        batch_first=True,
        norm_first=config.norm == "pre",
    ).to(block.attention.to_queries.weight.dtype)
    _fill(
        block,
        layer,
        [block.attention_residual, block.cross_residual, block.feedforward_residual],
    )
    layer.multihead_attn = _attention_like(block.cross_attention, layer.multihead_attn)
    return layer


def transformers_llama(model):
    """transformers.LlamaForCausalLM with the weights of our LlamaLM."""
    from transformers import LlamaConfig as TheirConfig
    from transformers import LlamaForCausalLM

    config = model.config
    theirs = LlamaForCausalLM(
        TheirConfig(
            vocab_size=config.vocab_size,
            hidden_size=config.d_model,
            intermediate_size=config.d_ff,
            num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads,
            num_key_value_heads=config.num_kv_heads,
            head_dim=config.d_model // config.num_heads,
            max_position_embeddings=config.max_length,
            rms_norm_eps=config.norm_eps,
            tie_word_embeddings=config.tied,
            rope_parameters={"rope_type": "default", "rope_theta": config.rope_base},
            attention_bias=False,
            mlp_bias=False,
            bos_token_id=1,
            eos_token_id=2,
            pad_token_id=0,
        )
    ).to(model.tokens.weight.dtype)
    names = {
        "tokens.weight": "model.embed_tokens.weight",
        "norm.weight": "model.norm.weight",
        "head.weight": "lm_head.weight",
    }
    inside = {
        "attention_norm": "input_layernorm",
        "attention.to_queries": "self_attn.q_proj",
        "attention.to_keys": "self_attn.k_proj",
        "attention.to_values": "self_attn.v_proj",
        "attention.to_output": "self_attn.o_proj",
        "feedforward_norm": "post_attention_layernorm",
        "feedforward.gate": "mlp.gate_proj",
        "feedforward.up": "mlp.up_proj",
        "feedforward.down": "mlp.down_proj",
    }
    for i in range(config.num_layers):
        for mine, other in inside.items():
            names[f"blocks.{i}.{mine}.weight"] = f"model.layers.{i}.{other}.weight"
    state = {names[key]: value for key, value in model.state_dict().items()}
    missing, unexpected = theirs.load_state_dict(state, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    theirs.tie_weights() if config.tied else None
    return theirs.eval()

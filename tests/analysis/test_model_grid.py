"""Tensors by layer and role, in the order in which a layer computes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.analysis.model_grid import Kind, ModelGrid, RoleName, column_of, model_grid

GGUF = (
    *("attn_norm", "attn_q", "attn_q_norm", "attn_k", "attn_k_norm", "attn_v", "attn_output"),
    *("post_attention_norm", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down", "post_ffw_norm"),
)
HUGGING_FACE = (
    *("input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    *("self_attn.o_proj", "post_attention_layernorm", "mlp.gate", "mlp.gate_proj"),
    *("mlp.up_proj", "mlp.down_proj"),
)
MIXTURE = (
    *("attn_norm", "attn_q_a", "attn_q_a_norm", "attn_q_b", "attn_kv_a_mqa", "attn_kv_b"),
    *("attn_output", "ffn_norm", "ffn_gate_inp", "exp_probs_b", "ffn_gate_exps", "ffn_up_exps"),
    *("ffn_down_exps", "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"),
)


@pytest.mark.parametrize("roles", [GGUF, HUGGING_FACE, MIXTURE])
def test_roles_stand_in_the_order_of_a_layers_computation(roles: tuple[str, ...]) -> None:
    assert tuple(sorted(sorted(roles), key=lambda role: column_of(role).rank)) == roles


@pytest.mark.parametrize(
    ("role", "suffix", "label"),
    [
        ("attn_q", "weight", "q"),
        ("self_attn.q_proj", "weight", "q"),
        ("self_attn.q_proj", "bias", "q bias"),
        ("attn_qkv", "weight", "qkv"),
        ("attn.c_proj", "weight", "o"),
        ("mlp.c_proj", "weight", "down"),
        ("ffn_gate_inp", "weight", "router"),
        ("ffn_down_exps", "weight", "down experts"),
        ("mlp.experts.*.down_proj", "weight", "down experts"),
        ("block_sparse_moe.experts.*.w1", "weight", "gate experts"),
        ("mlp.shared_expert.up_proj", "weight", "up shared"),
        ("exp_probs_b", "bias", "router bias"),
        ("ffn_up", "input_scale", "up input scale"),
        ("something.new", "weight", "something.new"),
        ("x" * 600, "weight", "x" * 600),
    ],
)
def test_short_names(role: str, suffix: str, label: str) -> None:
    assert column_of(role, suffix).label == label


def test_unknown_roles_stand_behind_the_others() -> None:
    roles = ["aaa", "ffn_down", "post_ffw_norm", "attn_norm"]
    ordered = sorted(roles, key=lambda role: column_of(role).rank)
    assert ordered == ["attn_norm", "ffn_down", "post_ffw_norm", "aaa"]


def test_names_are_taken_apart() -> None:
    assert RoleName.of("blk.3.attn_q.bias") == ("blk", 3, "attn_q", "bias")
    name = RoleName.of("model.layers.7.mlp.experts.12.gate_proj.weight")
    assert name == ("model.layers", 7, "mlp.experts.*.gate_proj", "weight")
    assert RoleName.of("output_norm.weight").comes_last
    assert RoleName.of("model.norm.weight").comes_last
    assert not RoleName.of("token_embd.weight").comes_last
    assert RoleName.of("") == ("", None, "", "")


def labels(grid: ModelGrid) -> list[tuple[Kind, str, int, list[str]]]:
    return [(s.kind, s.stack, len(s.layers), [c.label for c in s.columns]) for s in grid.sections]


def test_stacks_are_sections_of_their_own_the_largest_first() -> None:
    names = ["token_embd.weight", "v.patch_embd.weight", "output_norm.weight", "output.weight"]
    names += [f"v.blk.{i}.attn_q.weight" for i in range(2)]
    names += [f"blk.{i}.{role}.weight" for i in (0, 1, 10) for role in ("ffn_up", "attn_q")]
    grid = model_grid(names)
    assert labels(grid) == [
        (Kind.BEFORE, "", 0, ["token_embd", "v.patch_embd"]),
        (Kind.LAYERS, "blk", 3, ["q", "up"]),
        (Kind.LAYERS, "v.blk", 2, ["q"]),
        (Kind.AFTER, "", 0, ["output_norm", "output"]),
    ]
    assert grid.sections[1].layers == (0, 1, 10)
    cell = grid.cells[grid.cell_of[names.index("blk.10.ffn_up.weight")]]
    assert (cell.section, cell.row, cell.column) == (1, 2, 1)


def test_experts_share_a_cell() -> None:
    names = [
        f"model.layers.{layer}.mlp.experts.{expert}.{part}_proj.weight"
        for layer in range(2)
        for expert in range(16)
        for part in ("gate", "down")
    ]
    grid = model_grid(names)
    assert labels(grid) == [(Kind.LAYERS, "model.layers", 2, ["gate experts", "down experts"])]
    assert [len(cell.rows) for cell in grid.cells] == [16] * 4
    assert all("gate" in names[row] for row in grid.cells[0].rows)


def test_layers_may_lack_a_role() -> None:
    grid = model_grid(["blk.0.attn_q.weight", "blk.1.attn_k.weight"])
    (section,) = grid.sections
    assert section.cells == {(0, 0): 0, (1, 1): 1}


def test_two_roles_of_one_short_name_keep_their_own() -> None:
    grid = model_grid(["blk.0.attn_q.weight", "blk.0.q_proj.weight"])
    assert [column.label for column in grid.sections[0].columns] == ["attn_q", "q_proj"]


def test_a_hostile_file_takes_no_more_memory_than_it_has_tensors() -> None:
    names = [f"blk.{i}.role{i}.weight" for i in range(3000)]  # 9,000,000 places
    grid = model_grid(names)
    assert len(grid.cells) == 3000
    assert len(grid.sections[0].cells) == 3000


def test_giving_up() -> None:
    def check() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        model_grid(["blk.0.attn_q.weight"], check)
    assert model_grid([], check).sections == ()


@given(
    st.lists(
        st.one_of(
            st.text(max_size=30),
            st.from_regex(r"(v\.)?blk\.[0-3]\.(attn_q|ffn_up|x)\.(weight|bias)", fullmatch=True),
            st.from_regex(r"h\.[0-9]\.experts\.[0-9]\.w[123]", fullmatch=True),
        ),
        max_size=40,
    )
)
def test_each_tensor_has_one_cell_and_each_cell_its_place(names: list[str]) -> None:
    grid = model_grid(names)
    assert sorted(row for cell in grid.cells for row in cell.rows) == list(range(len(names)))
    for number, cell in enumerate(grid.cells):
        assert np.all(grid.cell_of[list(cell.rows)] == number)
        section = grid.sections[cell.section]
        assert section.cells[cell.row, cell.column] == number
        assert 0 <= cell.row < section.row_count
        assert 0 <= cell.column < len(section.columns)
        assert len({RoleName.of(names[row]) for row in cell.rows}) == 1


def test_norms_and_biases_share_the_last_column() -> None:
    roles = ("attn_norm", "attn_q", "ffn_norm", "ffn_down")
    names = [f"blk.{layer}.{role}.weight" for layer in range(2) for role in roles]
    names += ["output_norm.weight", "token_embd.weight"]
    matrices = np.array(["norm" not in name for name in names])
    folded = model_grid(names).folded(matrices)
    before, layers, after = folded.sections
    assert [one.label for one in layers.columns] == ["q", "down", "norms, biases"]
    assert [one.label for one in (*before.columns, *after.columns)] == ["token_embd", "output_norm"]
    own = {names[row]: folded.cells[cell].rows for row, cell in enumerate(folded.cell_of.tolist())}
    assert own["blk.1.ffn_norm.weight"] == (4, 6)
    assert own["blk.1.ffn_down.weight"] == (7,)
    assert folded.layer_of(int(folded.cell_of[7])) == (1, 1)
    assert folded.layer_of(int(folded.cell_of[8])) is None
    assert folded.row_in(1, 1, 6) == 6
    assert folded.row_in(1, 1, 0) == 5


def test_a_stack_without_matrices_keeps_its_columns() -> None:
    grid = model_grid(["blk.0.a_norm.weight", "blk.0.b_norm.weight"])
    folded = grid.folded(np.zeros(2, np.bool_))
    assert folded.sections[0].columns == grid.sections[0].columns
    assert model_grid([]).folded(np.zeros(0, np.bool_)).sections == ()

"""What the name of a range tells about what passes in it."""

from __future__ import annotations

import pytest

from rules.analysis.names.regions import is_input


@pytest.mark.parametrize(
    ("name", "feeds"),
    [
        ("prefetch", True),
        ("load_batch", True),
        ("fetch_players", True),
        ("prefetch_layer_6", False),
        ("prefetch_layers_[1, 2]", False),
        ("layer_0_kv_fetch", False),
        ("load_experts", False),
        ("input_layernorm", False),
        ("load_weights", False),
    ],
)
def test_what_fetches_parts_of_a_model_is_no_input(name: str, feeds: bool) -> None:
    assert is_input(name) is feeds

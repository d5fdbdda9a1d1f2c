"""Symbols of Rust as people write the names."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers.model.names.mangled import readable_symbol
from tests.parsers.test_sampled_stacks import calls, opened

HASH = "h7bfab8630dda96cf"


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        (f"_$LT$u8$u20$as$u20$core..clone..Clone$GT$::clone::{HASH}", "<u8 as core::clone::Clone>::clone"),
        (
            f"core::cmp::impls::_$LT$impl$u20$core..cmp..PartialOrd$u20$for$u20$usize$GT$::lt::{HASH}",
            "core::cmp::impls::<impl core::cmp::PartialOrd for usize>::lt",
        ),
        (f"demo::cpu::step::{HASH}", "demo::cpu::step"),
        (f"demo::run::_$u7b$$u7b$closure$u7d$$u7d$::{HASH}", "demo::run::{{closure}}"),
        (f"_ZN4demo3cpu4step17{HASH}E", "demo::cpu::step"),
        (
            f"_ZN44_$LT$$RF$T$u20$as$u20$core..fmt..Display$GT$3fmt17{HASH}E.llvm.4A1F",
            "<&T as core::fmt::Display>::fmt",
        ),
        ("_RNvNtCs1a_4demo3cpu4step", "demo::cpu::step"),
        ("_RINvNtNtC4demo3cpu4core4stepmE", "demo::cpu::core::step"),  # what it is generic for is left out
        ("_RNCNCNvNtCs1a_4demo3cpu4step0s_0B5_", "demo::cpu::step::{closure}::{closure}"),
        ("_RNvMs_NtCs1a_4demo3cpuNtB4_4Cell4clip", "demo::cpu::Cell::clip"),
        ("_RNvCs1a_4demo6___step", "demo::__step"),
        (
            "_RNvXs_NtC4demo3cpuNtB4_4CellNtC4core5Clone5clone",
            "_RNvXs_NtC4demo3cpuNtB4_4CellNtC4core5Clone5clone",
        ),
        ("_RNvC9demo4ste", "_RNvC9demo4ste"),
        ("_ReadBarrier", "_ReadBarrier"),
        (f"_ZN4demo9cpu4step17{HASH}E", f"_ZN4demo9cpu4step17{HASH}E"),
        (f"x$u110000$$u1b$::{HASH}", "x$u110000$$u1b$"),
        (f"demo::step::{HASH}0", f"demo::step::{HASH}0"),
        (f"demo::step::{HASH[:-1]}", f"demo::step::{HASH[:-1]}"),
        ("std::vector<int>::push_back(int&&)", "std::vector<int>::push_back(int&&)"),
        ("Outer$LT$Inner", "Outer$LT$Inner"),
    ],
)
def test_only_symbols_of_rust_are_decoded(symbol: str, name: str) -> None:
    assert readable_symbol(symbol) == name


def test_samples_of_every_kind_have_readable_names(tmp_path: Path) -> None:
    symbol = f"_$LT$u8$u20$as$u20$core..clone..Clone$GT$::clone::{HASH}"
    perf = f"app 7 100.000000: cycles:\n\t    55d0 {symbol}+0x1f (/home/me/app)\n"
    assert calls(opened(tmp_path, perf))[0][0] == "<u8 as core::clone::Clone>::clone (/home/me/app)"
    stacks = f"main;{symbol} 1\n"
    assert calls(opened(tmp_path, stacks))[-1][0] == "<u8 as core::clone::Clone>::clone"

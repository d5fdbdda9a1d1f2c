"""Patches to a user's script: found at the lines the recorder saw, formatting kept, written only when asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from viewer.capture.request import CaptureProblem
from viewer.capture.torch_runner.stallscope_recorder.trials.sites import Edit, Site
from viewer.capture.trials.source import Source

SCRIPT = '''"""Trains."""
import torch
from torch.utils.data import DataLoader


def main():
    model = build().to("cuda")  # kept
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=1e-4,
        foreach=False,
    )
    loader = DataLoader(data, batch_size=8)
    for batch in loader:
        batch = batch.to("cuda")
        loss = model(batch).mean()
        optimizer.zero_grad(set_to_none=False)


if __name__ == "__main__": main()
'''
FUSED = Edit("optimizer", (("fused", "True"),), ("foreach",))
WORKERS = Edit("loader", (("num_workers", "4"),))
PINNED = Edit("loader", (("pin_memory", "True"),))
AUTOCAST = Edit("model", around='torch.autocast("cuda", dtype=torch.bfloat16)')
COMPILED = Edit("model", after="{}.compile()")
TF32 = Edit("", once='torch.set_float32_matmul_precision("high")')
CALLS = {
    "optimizer": ("torch.optim.AdamW(", "AdamW"),
    "loader": ("DataLoader(data", "DataLoader"),
    "model": ("model(batch)", ""),
    "copy": ('batch.to("cuda")', ""),
    "zero_grad": ("optimizer.zero_grad(", ""),
}


def site(path: Path, what: str, *, column: bool = True) -> Site:
    text, called = CALLS[what]
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if text in line:
            return Site(what, str(path), number, line.index(text) if column else -1, "main", called)
    raise AssertionError(what)


def patched(path: Path, *edits: Edit, column: bool = True) -> str:
    """The text that ``path`` would have with some edits."""
    source = Source(
        tuple(site(path, what, column=column) for what in CALLS),
        {str(number): (edit,) for number, edit in enumerate(edits)},
    )
    patch = source.patch([str(number) for number in range(len(edits))])
    assert not patch.missing
    return patch.files[0].after


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


@pytest.mark.parametrize("column", [True, False])
@pytest.mark.parametrize(
    ("edit", "before", "after"),
    [
        (FUSED, "        foreach=False,\n", "        fused=True,\n"),
        (WORKERS, "batch_size=8)", "batch_size=8, num_workers=4)"),
        (Edit("zero_grad", (("set_to_none", "True"),)), "set_to_none=False", "set_to_none=True"),
        (
            Edit("copy", (("non_blocking", "True"),)),
            '= batch.to("cuda")',
            '= batch.to("cuda", non_blocking=True)',
        ),
        (COMPILED, "# kept\n", "# kept\n    model.compile()\n"),
        (TF32, "DataLoader\n", 'DataLoader\ntorch.set_float32_matmul_precision("high")\n'),
        (
            AUTOCAST,
            "        loss = model(batch).mean()\n",
            '        with torch.autocast("cuda", dtype=torch.bfloat16):\n            loss = model(batch).mean()\n',
        ),
    ],
)
def test_change_only_the_line_of_each_edit(
    script: Path, edit: Edit, before: str, after: str, column: bool
) -> None:
    assert patched(script, edit, column=column or edit.at == "model") == SCRIPT.replace(before, after, 1)
    assert script.read_text() == SCRIPT


def test_combine_edits_of_one_call_and_of_one_file(script: Path) -> None:
    made = patched(script, WORKERS, PINNED, FUSED, AUTOCAST, COMPILED, TF32)
    assert "DataLoader(data, batch_size=8, num_workers=4, pin_memory=True)" in made
    assert "fused=True" in made
    assert "foreach" not in made
    assert "model.compile()" in made
    assert "with torch.autocast" in made
    compile(made, "train.py", "exec")


@pytest.mark.parametrize("options", ["**options", "*options", "1, 2, 3, 4, 5, 6"])
def test_leave_out_arguments_that_could_be_given_twice(script: Path, options: str) -> None:
    script.write_text(SCRIPT.replace("batch_size=8", options))
    patch = Source((site(script, "loader"),), {"num-workers": (WORKERS,)}).patch(["num-workers"])
    assert (patch.files, patch.missing) == ((), ("num-workers",))


def test_import_torch_where_the_file_does_not(script: Path) -> None:
    script.write_text(
        SCRIPT.replace("import torch\n", "from torch.optim import AdamW\n", 1).replace("torch.optim.A", "A")
    )
    found = Site("optimizer", str(script), 8, -1, "main", "AdamW")
    patch = Source((found,), {"tf32": (TF32,)}).patch(["tf32"])
    assert "+import torch\n" in patch.diff


def test_say_nothing_of_files_of_another_machine_and_of_no_python(script: Path, tmp_path: Path) -> None:
    elsewhere = Site("loader", str(tmp_path / "gone.py"), 3, 4, "main", "DataLoader")
    assert Source((elsewhere,), {"num-workers": (WORKERS,)}).patch(["num-workers"]).missing == (
        "num-workers",
    )
    script.write_text("def (")
    broken = Site("loader", str(script), 1, 0, "main", "DataLoader")
    assert Source((broken,), {"num-workers": (WORKERS,)}).patch(["num-workers"]).files == ()


def test_apply_keeps_the_mode_and_line_ends_and_refuses_an_edited_file(script: Path) -> None:
    script.write_bytes(SCRIPT.replace("\n", "\r\n").encode())
    script.chmod(0o755)
    patch = Source((site(script, "loader"),), {"num-workers": (WORKERS,)}).patch(["num-workers"])
    patch.apply()
    assert b"num_workers=4)\r\n" in script.read_bytes()
    assert script.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in script.parent.iterdir()] == ["train.py"]
    with pytest.raises(CaptureProblem, match="has changed since the trial"):
        patch.apply()

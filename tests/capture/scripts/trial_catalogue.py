"""Makes every change of the catalogue and takes it back, in a program of this process; prints what was left."""

import json
import sys

sys.path.insert(0, sys.argv[1])
import torch
from stallscope_recorder.trials.catalogue import START, Changes, catalogue
from stallscope_recorder.trials.observation import Observation
from stallscope_recorder.trials.program import Program

program = Program()
observation = Observation(program)
observation.install()
observation.look()
model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 2))
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
rows = [(torch.randn(3, 8, 8), number % 2) for number in range(64)]
loader = torch.utils.data.DataLoader(rows, batch_size=4)


def step(batch):
    optimizer.zero_grad(set_to_none=False)
    loss = observation.forward(lambda module, x: module(x), model, (batch[0],), {}).float().square().mean()
    loss.backward()
    optimizer.step()
    program.step_begins()
    return loss.item()


def snapshot():
    cuda = torch.backends.cuda
    return {
        "flags": [
            torch.get_float32_matmul_precision(),
            torch.backends.cudnn.allow_tf32,
            torch.backends.cudnn.benchmark,
            torch.get_num_threads(),
            cuda.flash_sdp_enabled(),
            cuda.mem_efficient_sdp_enabled(),
            cuda.math_sdp_enabled(),
        ],
        "tensor": sorted(name for name in vars(torch.Tensor)),
        "model": sorted(vars(model)),
        "optimizer": sorted(vars(optimizer))
        + [str(optimizer.param_groups[0][k]) for k in ("fused", "foreach")],
        "steps": [str(state["step"].device) for state in optimizer.state.values()],
        "strides": [parameter.stride() for parameter in model.parameters()],
        "save": torch.save.__module__ + torch.save.__qualname__,
        "reduce": torch.distributed.all_reduce.__qualname__,
        "classes": [
            torch.utils.data.DataLoader.__init__.__qualname__,
            torch.nn.parallel.DistributedDataParallel.__init__.__qualname__,
            torch.optim.Optimizer.zero_grad.__qualname__,
        ],
        "program": [program.repeats_batch, str(program.scaler)],
    }


for batch in list(loader)[:3]:
    step(batch)
observation.stop_looking()
before = snapshot()
changes = Changes(program)
told = {}
for name, cls in sorted(catalogue().items()):
    if name.startswith("compile"):
        continue
    told[name] = {"against": changes.reason_against(name), "level": cls.level}
    failure = changes.turn((name,))
    told[name]["differs"] = sorted(key for key, value in snapshot().items() if value != before[key])
    if not failure and cls.level != START and name not in ("inference-mode", "non-blocking", "cuda-graph"):
        changes.at_step()
        losses = [step(batch) for batch in list(loader)[:2]]
        told[name]["finite"] = all(loss == loss for loss in losses)
    told[name]["failure"] = failure
    told[name]["batches"] = len(list(loader))
    changes.take_all_back()
    after = snapshot()
    told[name]["left"] = sorted(key for key, value in after.items() if value != before[key])

answers = []
changes.turn(("no-read-backs",))
counter = torch.zeros(())
for _ in range(1200):
    counter += 1
    answers.append(counter.item())
changes.take_all_back()
told["answers"] = {"distinct": len(set(answers)), "last": answers[-1]}


class Endless(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(range(1, 5))


stream = torch.utils.data.DataLoader(Endless(), batch_size=None)
list(stream)
changes.turn(("same-batch",))
told["stream"] = {"batches": sum(1 for _ in stream)}
changes.take_all_back()
program.step_begins()

stepped = []
program.optimizer_stepped = stepped.append
program.step_begins()
changes.turn(("autocast-fp16",))
scaled = [step([rows[0][0].unsqueeze(0)]), len(stepped)]
step([torch.full((1, 3, 8, 8), 6e4)])
told["overflow"] = {"before": scaled[1], "after": len(stepped)}
changes.take_all_back()
with torch.no_grad():
    for parameter in model.parameters():
        parameter.grad = None
changes.turn(("autocast-bf16", "inference-mode", "no-evaluation"))
changes.turn(("inference-mode",))
told["reordered"] = {"left": sorted(vars(model)), "made": list(changes.made)}
changes.take_all_back()
told["reordered"]["after"] = [key for key, value in snapshot().items() if value != before[key]]
print(json.dumps(told))

"""Calls models through CUDA graphs that are pretended: a replay computes what was recorded, into the same tensors."""

import contextlib
import json
import sys
from types import SimpleNamespace

sys.path.insert(0, sys.argv[1])
import torch
from stallscope_recorder.trials.catalogue import Changes
from stallscope_recorder.trials.changes import cuda_graph
from stallscope_recorder.trials.program import Program

recorded = []


class Graph:
    def replay(self):
        self.again()


@contextlib.contextmanager
def recording(graph, capture_error_mode):
    recorded.append(graph)
    yield


def graphed_callables(module, samples):
    recorded.append(module)
    return module


stream = SimpleNamespace(wait_stream=lambda other: None)
torch.cuda.CUDAGraph, torch.cuda.graph = Graph, recording
torch.cuda.Stream = torch.cuda.current_stream = lambda: stream
torch.cuda.stream = lambda each: contextlib.nullcontext()
torch.cuda.is_current_stream_capturing = bool
torch.cuda.make_graphed_callables = graphed_callables
Program.device = "cuda"
told = {}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x, scale=1.0):
        answer = self.layer(x) * scale
        for graph in recorded[-1:]:
            if isinstance(graph, Graph) and not hasattr(graph, "again"):
                graph.again = lambda: answer.copy_(self.layer(x) * scale)
        return {"answer": answer, "scale": scale}


def fresh(trains=False):
    program, model = Program(), Model()
    program.meet_model(model)
    program.backwards = int(trains)
    return program, model, Changes(program)


cuda_graph._on_gpu = lambda leaf: True
program, model, changes = fresh()
assert changes.turn(("cuda-graph",)) == ""
first, second = torch.randn(2, 4), torch.randn(2, 4)
kept = model(first)["answer"]
again = model(second, scale=1.0)["answer"]
with torch.no_grad():
    told["right"] = [
        bool(torch.equal(kept, model.layer(first))),
        bool(torch.equal(again, model.layer(second))),
    ]
told["graphs"] = [len(recorded)]
model(second)
told["graphs"].append(len(recorded))
model(torch.randn(3, 4))
told["graphs"].append(len(recorded))
torch.set_float32_matmul_precision("high")
model(second)
told["graphs"].append(len(recorded))
torch.set_float32_matmul_precision("highest")
changes.take_all_back()
changes.turn(("cuda-graph",))
model(second)
told["graphs"].append(len(recorded))
told["left"] = sorted(set(vars(model)) & {"forward"})
changes.take_all_back()
told["left"] += sorted(set(vars(model)) & {"forward"})


class Plain(Model):
    def forward(self, x):
        return super().forward(x)["answer"]


def plain():
    program, model = Program(), Plain()
    program.meet_model(model)
    changes = Changes(program)
    changes.turn(("cuda-graph",))
    kept, again = model(first), model(second)
    with torch.no_grad():
        return [bool(torch.equal(kept, model.layer(first))), bool(torch.equal(again, model.layer(second)))]


told["a plain answer is right"] = plain()


def raised(call):
    try:
        call()
    except Exception as error:
        return str(error)
    return ""


program, model, changes = fresh()
changes.turn(("cuda-graph",))
told["shapes"] = [bool(raised(lambda size=size: model(torch.randn(size, 4)))) for size in range(1, 11)]
told["told shapes"] = raised(lambda: model(torch.randn(20, 4)))
cuda_graph._on_gpu = lambda leaf: leaf.is_cuda
told["on the CPU"] = raised(lambda: model(torch.randn(1, 4)))
cuda_graph._on_gpu = lambda leaf: True

program, model, changes = fresh(trains=True)
recorded.clear()
changes.turn(("cuda-graph",))
loss = model(first)["answer"].square().mean()
loss.backward()
told["trained"] = [len(recorded), len(list(recorded[0].parameters())), model.layer.weight.grad is not None]
told["twice"] = raised(lambda: model(first))
program.backwards += 1
told["after backward"] = raised(lambda: model(first))
model.layer.register_forward_hook(lambda *_: None)
model.register_forward_hook(lambda *_: None)
program.backwards += 1
told["hooks"] = raised(lambda: model(torch.randn(5, 4)))
told["casts"] = torch.is_autocast_cache_enabled()
print(json.dumps(told))

"""Three epochs of six batches; the first argument is the number of DataLoader workers."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(96, 16), torch.randint(0, 2, (96,)))
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    done = 0
    for _ in range(3):
        for inputs, labels in DataLoader(data, batch_size=16, num_workers=workers):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            done += 1
    print("made", done, "steps", flush=True)


if __name__ == "__main__":
    main()

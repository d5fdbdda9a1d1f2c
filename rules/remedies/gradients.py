"""Gradients that nobody uses, or that are computed several times."""

from __future__ import annotations

from rules.remedies.remedy import pytorch_remedy

NO_UNUSED_GRADIENTS = pytorch_remedy(
    "Run the part of the model that is not trained under torch.no_grad(), or detach what it returns; eval() "
    "alone does not turn gradients off.",
    "For a frozen part of a larger model: part.requires_grad_(False).",
    "If it should be trained after all, give its parameters to the optimizer: it has none of them.",
    code="""with torch.no_grad():
    known = teacher(batch)                       # or: features = backbone(batch)
loss = loss_of(student(batch), known)""",
)

NO_GRADIENTS_FOR_OTHERS = pytorch_remedy(
    "Before a backward pass, turn gradients off for the parameters that its optimizer does not own: "
    "part.requires_grad_(False), and on again behind it.",
    "Where the loss only looks at what another part makes, detach that: discriminator(fake.detach()).",
    code="""loss_d = loss_of(discriminator(real), discriminator(fake.detach()))
...
discriminator.requires_grad_(False)          # the generator's pass leads through it, to nothing in it
generator_loss(discriminator(fake)).backward()
optimizer_g.step()
discriminator.requires_grad_(True)""",
)

ONE_BACKWARD = pytorch_remedy(
    "Add up the losses, weighted as they are now, and call backward() once without retain_graph=True.",
    "The gradients are the same: those of a sum are the sum of the gradients. If each task needs its own, take "
    "them only with respect to the last shared layer, and go on from there once.",
    code="""loss = sum(weight * each for weight, each in zip(weights, losses))
loss.backward()                              # instead of each.backward(retain_graph=True)""",
)

GRADIENTS_AT_ONCE = pytorch_remedy(
    "Take the gradients of all outputs in one pass: torch.autograd.grad(..., is_grads_batched=True) with a row of "
    "the identity for each output, or torch.func.jacrev.",
    "Where there are fewer inputs than outputs, or as few, torch.func.jacfwd needs no backward pass.",
    "A formula whose derivative you can write down needs neither: compute it under torch.no_grad().",
    code="""rows = torch.eye(outputs.shape[1]).unsqueeze(1).expand(-1, *outputs.shape)
(jacobian,) = torch.autograd.grad(outputs, inputs, rows, is_grads_batched=True)
# instead of: [torch.autograd.grad(each.sum(), inputs, retain_graph=True)[0] for each in outputs.T]""",
)

SPARSE_GRADIENTS = pytorch_remedy(
    "Give the tables sparse gradients, updated by torch.optim.SGD without momentum, Adagrad or SparseAdam, and "
    "use another optimizer for the rest.",
    "Clip and log the norms of the other gradients only: not every operator takes sparse ones.",
    "Several tables may become one with an offset for each feature, so that all are looked up and updated at once.",
    code="""table = torch.nn.Embedding(rows, width, sparse=True)
optimizers = [torch.optim.SparseAdam(table.parameters()), torch.optim.Adam(rest, fused=True)]""",
)

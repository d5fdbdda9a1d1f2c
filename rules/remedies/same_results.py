"""Results that are the same as before."""

from __future__ import annotations

from rules.remedies.remedy import remedy
from rules.wording.words import for_pytorch

KEEP_RESULT = remedy(
    "Run the network once for what does not change, before the loop, and keep what it returns.",
    for_pytorch("Do that under torch.no_grad(), so that nothing else is kept."),
    code=for_pytorch("""with torch.no_grad():
    wanted = features(style)                  # once
for _ in range(steps):
    loss = loss_of(features(picture), wanted)"""),
)

EVALUATE_ONCE = remedy(
    "Keep the gradient (the force) from the end of a step for the beginning of the next: the place has not moved in "
    "between.",
    "Between two whole steps, both half kicks are then one, with twice the factor.",
    code=for_pytorch("""force = gradient(place)
for _ in range(steps):
    speed = speed + 0.5 * dt * force
    place = place + dt * speed
    force = gradient(place)                   # once for each place
    speed = speed + 0.5 * dt * force"""),
)

"""What idle GPUs cost: GPU-hours of each hour that the program runs as it was recorded, and money at a price."""

from __future__ import annotations

from parsers.model.late import dataclass
from parsers.model.units import NS_PER_S, percent, three_digits
from rules.analysis.analysis import Analysis

_MANY_STEPS = 1000


@dataclass(frozen=True, slots=True)
class IdleCost:
    """Of each hour: ``gpus`` GPU-hours are paid for and ``idle`` of them unused; ``price`` is that of one.

    ``per_1000_steps`` is the same for a thousand steps as recorded; None without steps.
    """

    price: float
    gpus: int
    idle: float
    per_1000_steps: float | None

    @property
    def money_per_hour(self) -> float:
        """What the idle part of an hour costs."""
        return self.idle * self.price

    @property
    def text(self) -> str:
        """A sentence or two; money in the unit of the price."""
        said = (
            f"Of each hour that this runs, {three_digits(self.idle)} of {self.gpus} GPU-hours are idle "
            f"({percent(self.idle / self.gpus)}): {money(self.money_per_hour)} at {money(self.price)} a GPU-hour."
        )
        if self.per_1000_steps is not None:
            said += (
                f" A thousand steps leave {three_digits(self.per_1000_steps)} GPU-hours idle: "
                f"{money(self.per_1000_steps * self.price)}."
            )
        return said


def idle_cost(analysis: Analysis, price: float) -> IdleCost | None:
    """What the idle time of the window costs, with the price of one GPU for an hour; None without GPU work."""
    budgets = [analysis.budgets(device) for device in analysis.active_devices]
    budgets = [budget for budget in budgets if budget.window_ns > 0]
    if not budgets:
        return None
    idle_ns = sum(budget.total_idle_ns for budget in budgets)
    steps = analysis.steps_in_window
    return IdleCost(
        price,
        len(budgets),
        sum(budget.total_idle_ns / budget.window_ns for budget in budgets),
        idle_ns / steps * _MANY_STEPS / (3_600 * NS_PER_S) if steps else None,
    )


def money(amount: float) -> str:
    """An amount in the unit of the price, which nobody states."""
    return f"{amount:,.2f}" if amount >= 0.1 or not amount else f"{amount:.2g}"

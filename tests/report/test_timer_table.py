"""The table of a timer tree."""

from __future__ import annotations

from rookery.core.timers import TimerRow
from rookery.report.live import timer_table


def test_a_table_has_a_line_for_each_node_with_its_numbers_and_place():
    rows = [TimerRow(0, "train_iteration", 1234.5, 1.0, 40), TimerRow(1, "sample", 0.25, 0.125, 12_000)]
    assert timer_table(rows, ["run/trainer.py:10", ""]) == [
        "                    seconds    share        calls",
        "train_iteration    1,234.50  100.0 %           40  run/trainer.py:10",
        "  sample               0.25   12.5 %       12,000",
    ]

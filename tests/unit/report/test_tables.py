import csv
import io

import pytest

from servesmith.report.summary import summarise
from servesmith.report.tables import (
    Row,
    Table,
    change_table,
    columns,
    comma_separated,
    costs,
    gate_table,
    lever_table,
    markdown,
    trial_table,
)
from servesmith.store.journal import read_events


@pytest.fixture(scope="module")
def summary(tuned):
    return summarise(read_events(tuned))


def test_every_row_has_a_cell_for_every_column(summary):
    tables = [lever_table(summary), change_table(summary), trial_table(summary), gate_table(summary.gates[0])]
    for table in tables:
        assert table.rows
        assert {len(row.cells) for row in table.rows} == {len(table.columns)}


def test_main_and_further_metrics_together_are_all(summary):
    main, further = change_table(summary), change_table(summary, main=False)
    assert len(main.rows) + len(further.rows) == len(summary.changes)


def test_a_gain_is_paid_by_what_got_worse(summary):
    told = costs(summary)
    assert any(cost.startswith("start time +") for cost in told)
    assert not any(cost.startswith("output tokens per second") for cost in told)


def test_markdown_keeps_pipes_and_line_ends_inside_cells():
    table = Table("t", columns("a", "b>"), (Row(("x|y", "1\n2")),))
    assert markdown(table) == "| a | b |\n| --- | ---: |\n| x\\|y | 1 2 |\n"


def test_csv_gives_the_cells_back(summary):
    table = lever_table(summary)
    read = list(csv.reader(io.StringIO(comma_separated(table))))
    assert read[0] == [column.head for column in table.columns]
    assert [tuple(row) for row in read[1:]] == [row.cells for row in table.rows]

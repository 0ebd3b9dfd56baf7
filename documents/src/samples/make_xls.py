"""Makes table.xls in the binary format of Excel 97, which no crate can write (`pip install xlwt`, then run it here)."""

import datetime

import xlwt

book = xlwt.Workbook(encoding="utf-8")
day = xlwt.easyxf(num_format_str="YYYY-MM-DD")
items = book.add_sheet("Items")
for column, name in enumerate(["name", "qty", "price", "day"]):
    items.write(0, column, name)
for row, (name, qty, price, when) in enumerate(
    [
        ("bolt", 2, 1.5, datetime.datetime(2024, 1, 31)),
        ("nüt", None, 3, None),
    ],
    start=1,
):
    items.write(row, 0, name)
    if qty is not None:
        items.write(row, 1, qty)
    items.write(row, 2, price)
    if when is not None:
        items.write(row, 3, when, day)
whole = book.add_sheet("Whole")
for row, cells in enumerate([("a", "b"), (1, 2), (3, 4)]):
    for column, cell in enumerate(cells):
        whole.write(row, column, cell)
book.save("table.xls")

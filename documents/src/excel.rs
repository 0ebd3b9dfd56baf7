//! Excel: each sheet becomes a Markdown table. Cells are formatted as pandas does it, because Dify reads them with
//! pandas.

use std::io::Cursor;

use calamine::{Data, Range, Reader, Sheets, Xls, Xlsx};

use crate::package::Package;
use crate::{ExtractError, Limits, csv};

/// Most cells of one sheet. A single cell far away from the others can make a sheet very large.
const CELLS_MAX: usize = 5_000_000;
/// The first bytes of an archive; files of the older format begin differently.
const ARCHIVE: &[u8] = b"PK";

/// Returns the sheets one after the other. Damaged sheets are left out.
pub(crate) fn extract(bytes: &[u8], limits: Limits) -> Result<String, ExtractError> {
    let source = Cursor::new(bytes);
    let mut book = if bytes.starts_with(ARCHIVE) {
        Package::open(bytes, limits)?.weigh()?;
        Sheets::Xlsx(Xlsx::new(source).map_err(ExtractError::broken)?)
    } else {
        Sheets::Xls(Xls::new(source).map_err(ExtractError::broken)?)
    };
    let mut out = String::new();
    for name in book.sheet_names() {
        let Ok(range) = book.worksheet_range(&name) else { continue };
        sheet(&range, &mut out)?;
        out.push_str("\n\n");
    }
    Ok(out)
}

fn sheet(range: &Range<Data>, out: &mut String) -> Result<(), ExtractError> {
    let (rows, columns) = match range.end() {
        Some((row, column)) => (row as usize + 1, column as usize + 1),
        None => (0, 0),
    };
    if rows.saturating_mul(columns) > CELLS_MAX {
        return Err(ExtractError::Broken(format!("a sheet has more than {CELLS_MAX} cells")));
    }
    let empty = Data::Empty;
    let at = |row: usize, column: usize| {
        let place = u32::try_from(row).ok().zip(u32::try_from(column).ok());
        place.and_then(|place| range.get_value(place)).unwrap_or(&empty)
    };
    let head = head((0..columns).map(|column| at(0, column)));
    let kinds: Vec<Kind> =
        (0..columns).map(|column| Kind::of((1..rows).map(|row| at(row, column)))).collect();
    // If a table has only numbers, all numbers of a row have the same type.
    let numeric = kinds.iter().all(|kind| matches!(kind, Kind::Whole | Kind::Float));
    let floats = numeric && kinds.contains(&Kind::Float);
    csv::push_row(out, &head);
    csv::push_row(out, &csv::rule(&head));
    for row in 1..rows {
        if (0..columns).all(|column| is_missing(at(row, column))) {
            continue;
        }
        let cells: Vec<String> = kinds
            .iter()
            .enumerate()
            .map(|(column, kind)| shown(at(row, column), if floats { Kind::Float } else { *kind }))
            .collect();
        csv::push_row(out, &cells);
    }
    // Rows are separated by line breaks, so the last row has none.
    out.pop();
    Ok(())
}

/// Returns the column names. Columns without a name and repeated names get a number.
fn head<'a>(cells: impl Iterator<Item = &'a Data>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (at, cell) in cells.enumerate() {
        let name = if is_missing(cell) { format!("Unnamed: {at}") } else { shown(cell, Kind::Mixed) };
        let mut unique = name.clone();
        let mut count = 0;
        while names.contains(&unique) {
            count += 1;
            unique = format!("{name}.{count}");
        }
        names.push(unique);
    }
    names
}

/// The common type of the cells in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Whole numbers without gaps.
    Whole,
    /// Numbers. Also the type of any column of numbers with gaps, and of an empty column.
    Float,
    /// Dates and times, possibly with gaps.
    Moment,
    /// Any other mix of values.
    Mixed,
}

impl Kind {
    fn of<'a>(cells: impl Iterator<Item = &'a Data>) -> Self {
        let (mut numbers, mut fractions, mut moments, mut others, mut gaps) = (0, 0, 0, 0, 0);
        for cell in cells {
            match cell {
                Data::Int(_) => numbers += 1,
                Data::Float(number) => {
                    numbers += 1;
                    fractions += usize::from(number.fract() != 0.0);
                }
                Data::DateTime(_) | Data::DateTimeIso(_) => moments += 1,
                cell if is_missing(cell) => gaps += 1,
                Data::String(_) | Data::Bool(_) | Data::DurationIso(_) | Data::Error(_) | Data::Empty => {
                    others += 1
                }
            }
        }
        match (numbers, moments, others) {
            (_, 0, 0) if fractions > 0 || gaps > 0 => Self::Float,
            (0, 0, 0) => Self::Mixed,
            (_, 0, 0) => Self::Whole,
            (0, _, 0) => Self::Moment,
            (_, _, _) => Self::Mixed,
        }
    }
}

/// Returns true for an empty cell and for texts that pandas reads as missing.
fn is_missing(cell: &Data) -> bool {
    const NOTHING: [&str; 18] = [
        "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>",
        "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan",
    ];
    match cell {
        Data::Empty | Data::Error(_) => true,
        Data::String(text) => NOTHING.contains(&text.as_str()) || text == "null",
        Data::Int(_)
        | Data::Float(_)
        | Data::Bool(_)
        | Data::DateTime(_)
        | Data::DateTimeIso(_)
        | Data::DurationIso(_) => false,
    }
}

fn shown(cell: &Data, column: Kind) -> String {
    if is_missing(cell) {
        return if column == Kind::Moment { "NaT" } else { "nan" }.into();
    }
    let number = |number: f64| match column {
        Kind::Float => tidemill_common::value::pyrepr::float_repr(number),
        Kind::Whole | Kind::Moment | Kind::Mixed if number.fract() == 0.0 && number.abs() < 1e15 => {
            format!("{number:.0}")
        }
        Kind::Whole | Kind::Moment | Kind::Mixed => tidemill_common::value::pyrepr::float_repr(number),
    };
    match cell {
        Data::Int(whole) if column == Kind::Float => number(*whole as f64),
        Data::Int(whole) => whole.to_string(),
        Data::Float(float) => number(*float),
        Data::Bool(true) => "True".into(),
        Data::Bool(false) => "False".into(),
        Data::DateTime(moment) => match moment.as_datetime() {
            Some(moment) => moment.format("%Y-%m-%d %H:%M:%S").to_string(),
            None => moment.as_f64().to_string(),
        },
        Data::DateTimeIso(text) | Data::DurationIso(text) => text.replace('T', " "),
        Data::String(text) => text.lines().collect::<Vec<_>>().join(" "),
        Data::Error(_) | Data::Empty => cell.to_string().lines().collect::<Vec<_>>().join(" "),
    }
}

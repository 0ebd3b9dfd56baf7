//! Excel: each sheet as a Markdown table, with cells as pandas shows them, since that is what Dify reads them with.

use std::io::Cursor;

use calamine::{Data, Range, Reader, Sheets, Xls, Xlsx};

use crate::package::Package;
use crate::{ExtractError, Limits, csv};

/// Most cells of one sheet: one cell far out makes a sheet as large as it pleases.
const CELLS_MAX: usize = 5_000_000;
/// How an archive begins; what begins otherwise is of the older kind.
const ARCHIVE: &[u8] = b"PK";

/// The sheets, one behind the other. A sheet that is broken is left out.
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
    // In a row all numbers are of one kind, if there is nothing else in the table.
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
    // Rows are joined by line breaks: the last one has none.
    out.pop();
    Ok(())
}

/// The names of the columns: those without one are numbered, of two with one name the second is.
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

/// What the cells of a column are together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Whole numbers, none missing.
    Whole,
    /// Numbers; a column with gaps is one, whatever its numbers are, and so is an empty one.
    Float,
    /// Moments, perhaps with gaps.
    Moment,
    /// Anything.
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

/// Nothing, or what pandas takes for nothing.
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

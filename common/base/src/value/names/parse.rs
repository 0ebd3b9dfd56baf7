//! Parses a text into pieces, in one pass for any braces: each `}}` closes the last open `{{`.

use super::super::template::reference_at;
use super::{NameError, Piece};

/// An open `{{` and the pieces since.
struct Open {
    pieces: Vec<Piece>,
    /// True for `{{#` and `{{@` that do not begin a reference: these cannot be names.
    is_text: bool,
    /// The depth of the names inside it.
    levels: usize,
}

pub(super) fn pieces(source: &str, levels_max: usize) -> Result<Vec<Piece>, NameError> {
    let mut stack = vec![Open { pieces: Vec::new(), is_text: true, levels: 0 }];
    let mut rest = source;
    while !rest.is_empty() {
        if let Some((selector, length)) = reference_at(rest) {
            top(&mut stack).pieces.push(Piece::Reference(selector));
            rest = &rest[length..];
        } else if let Some(inner) = rest.strip_prefix("{{") {
            let is_text = inner.trim_start().starts_with(['#', '@']);
            stack.push(Open { pieces: Vec::new(), is_text, levels: 0 });
            rest = inner;
        } else if rest.starts_with("}}") && stack.len() > 1 {
            close(&mut stack, levels_max)?;
            rest = &rest[2..];
        } else {
            let first = rest.chars().next().map_or(0, char::len_utf8);
            let until = rest[first..].find(['{', '}']).map_or(rest.len(), |at| at + first);
            push_text(&mut top(&mut stack).pieces, &rest[..until]);
            rest = &rest[until..];
        }
    }
    // Braces that were never closed are plain text.
    while stack.len() > 1 {
        let open = stack.pop().map(|open| open.pieces).unwrap_or_default();
        push_all(&mut top(&mut stack).pieces, open, "{{", "");
    }
    Ok(stack.pop().map(|open| open.pieces).unwrap_or_default())
}

/// Returns the innermost open brace. The first entry is the text itself, which is never closed.
#[expect(clippy::indexing_slicing, reason = "the stack is never empty")]
fn top(stack: &mut [Open]) -> &mut Open {
    let last = stack.len() - 1;
    &mut stack[last]
}

fn close(stack: &mut Vec<Open>, levels_max: usize) -> Result<(), NameError> {
    let Some(closed) = stack.pop() else { return Ok(()) };
    let outer = top(stack);
    if closed.is_text || closed.pieces.iter().all(is_blank) {
        outer.levels = outer.levels.max(closed.levels);
        push_all(&mut outer.pieces, closed.pieces, "{{", "}}");
        return Ok(());
    }
    let levels = closed.levels + 1;
    if levels > levels_max {
        return Err(NameError::TooDeep(levels_max));
    }
    outer.levels = outer.levels.max(levels);
    outer.pieces.push(Piece::Name(closed.pieces));
    Ok(())
}

fn is_blank(piece: &Piece) -> bool {
    matches!(piece, Piece::Text(text) if text.trim().is_empty())
}

fn push_all(into: &mut Vec<Piece>, pieces: Vec<Piece>, before: &str, after: &str) {
    push_text(into, before);
    for piece in pieces {
        match piece {
            Piece::Text(text) => push_text(into, &text),
            other @ (Piece::Reference(_) | Piece::Name(_)) => into.push(other),
        }
    }
    push_text(into, after);
}

/// Appends to the text piece before it, so that no two text pieces are neighbours.
fn push_text(into: &mut Vec<Piece>, text: &str) {
    match into.last_mut() {
        Some(Piece::Text(before)) => before.push_str(text),
        Some(Piece::Reference(_) | Piece::Name(_)) | None if text.is_empty() => {}
        Some(Piece::Reference(_) | Piece::Name(_)) | None => into.push(Piece::Text(text.into())),
    }
}

//! Formats diagnostics for people: position, source line, hint.

use std::fmt::Write as _;

use super::Diagnostic;

/// Longest excerpt of a source line, in characters.
const SOURCE_CHARS_MAX: usize = 120;

/// One paragraph a problem:
///
/// ```text
/// flow.yml:12: error[graph.edge_unknown_node]: edge_1 ends at the unknown node "nowhere"
///    12 |     target: nowhere
///       = hint: did you mean "there"?
/// ```
pub fn render_for_people(file_name: &str, source: &[u8], diagnostics: &[Diagnostic]) -> String {
    let source = String::from_utf8_lossy(source);
    let lines: Vec<&str> = source.lines().collect();
    let mut text = String::new();
    for diagnostic in diagnostics {
        paragraph(&mut text, file_name, &lines, diagnostic);
    }
    text
}

// Writing into a String cannot fail, so the results are ignored.
fn paragraph(text: &mut String, file_name: &str, lines: &[&str], diagnostic: &Diagnostic) {
    let Diagnostic { severity, code, path, line, message, hint } = diagnostic;
    let place = line.map_or_else(String::new, |line| format!("{line}:"));
    let _ = writeln!(text, "{file_name}:{place} {}[{code}]: {message}", severity.name());
    let source_line = line.and_then(|line| {
        let at = usize::try_from(line).ok()?.checked_sub(1)?;
        lines.get(at).map(|source| (line, *source))
    });
    if let Some((line, source)) = source_line {
        let shown: String = source.trim_end().chars().take(SOURCE_CHARS_MAX).collect();
        let shown = shown.replace(|c: char| c.is_control(), " ");
        let _ = writeln!(text, "{line:>6} | {shown}");
    }
    if !path.is_empty() {
        let _ = writeln!(text, "       = at {path}");
    }
    if let Some(hint) = hint {
        let _ = writeln!(text, "       = hint: {hint}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_shows_its_line_and_its_hint() {
        let problem = Diagnostic::at_line("a.b", Some(2), "it is wrong").hinted("mend it");
        let whole = Diagnostic { path: "x".into(), ..Diagnostic::at_line("c.d", None, "all is wrong") };
        let text = render_for_people("f.yml", b"one\ntwo\x07x \n", &[problem, whole]);
        assert_eq!(
            text,
            "f.yml:2: error[a.b]: it is wrong\n     2 | two x\n       = hint: mend it\n\
             f.yml: error[c.d]: all is wrong\n       = at x\n"
        );
    }

    #[test]
    fn a_line_beyond_the_file_is_not_shown() {
        let text = render_for_people("f", b"", &[Diagnostic::at_line("a.b", Some(9), "wrong")]);
        assert_eq!(text, "f:9: error[a.b]: wrong\n");
    }
}

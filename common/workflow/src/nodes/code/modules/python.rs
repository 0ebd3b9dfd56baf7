//! The import statements of Python code, read from its logical lines: without strings and comments, with joined lines.

/// An imported module.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import {
    /// The full name, such as `urllib.request`.
    pub(super) dotted: String,
    /// The line of the statement, from 1.
    pub(super) line: usize,
    /// It is in a `try` that handles `ImportError`.
    pub(super) is_optional: bool,
}

/// A line as Python's grammar sees it. Texts in it are empty.
#[derive(Debug, Default)]
struct Line {
    number: usize,
    indent: usize,
    text: String,
}

/// The imports in the order of the code; relative imports are left out.
pub(super) fn imports(code: &str) -> Vec<Import> {
    let lines = Scanner::new(code).lines();
    let mut found = Vec::new();
    // The blocks around the line: the indent of each head, and whether a module may be missing inside.
    let mut blocks: Vec<(usize, bool)> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        while blocks.last().is_some_and(|(indent, _)| *indent >= line.indent) {
            blocks.pop();
        }
        let is_optional = blocks.last().is_some_and(|(_, is)| *is) || takes_missing(&lines, at);
        blocks.push((line.indent, is_optional));
        for dotted in line.statements().flat_map(modules) {
            found.push(Import { dotted, line: line.number, is_optional });
        }
    }
    found
}

/// The modules that a statement imports: `import a.b as c, d`, `from a.b import c, urllib`.
fn modules(statement: &str) -> Vec<String> {
    let statement = statement.trim();
    let (word, rest) = statement.split_once(char::is_whitespace).unwrap_or((statement, ""));
    let first_name = |part: &str| dotted(part.split_whitespace().next()?);
    match word {
        "import" => rest.split(',').filter_map(first_name).collect(),
        "from" => {
            let rest = rest.trim_start();
            let (base, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let (Some(base), Some(names)) = (dotted(base), rest.trim_start().strip_prefix("import")) else {
                return Vec::new();
            };
            // `from urllib import request` imports urllib.request as well, as far as the text tells.
            let names = names.split([',', '(', ')']).filter_map(first_name);
            let parts: Vec<String> = names.map(|name| format!("{base}.{name}")).collect();
            std::iter::once(base).chain(parts).collect()
        }
        _ => Vec::new(),
    }
}

/// A name with dots between its parts. Nothing else is one, such as a relative `.x`, or the `*` of a star import.
fn dotted(text: &str) -> Option<String> {
    let is_name = |part: &str| {
        part.chars().all(|c| c.is_alphanumeric() || c == '_')
            && part.starts_with(|first: char| first.is_alphabetic() || first == '_')
    };
    text.split('.').all(is_name).then(|| text.to_owned())
}

/// Whether this line begins a `try`, and an `except` of it takes `ImportError`.
fn takes_missing(lines: &[Line], head: usize) -> bool {
    let Line { indent, text, .. } = &lines[head];
    let begins = text.strip_prefix("try").is_some_and(|rest| rest.trim_start().starts_with(':'));
    let takes = |text: &str| {
        let caught = text.trim_start_matches("except").split(':').next().unwrap_or_default().trim();
        let names = ["ImportError", "ModuleNotFoundError", "Exception"];
        caught.is_empty() || names.iter().any(|name| caught.contains(name))
    };
    let after = lines[head + 1..].iter().filter(|line| line.indent <= *indent);
    let mut excepts = after.take_while(|line| line.indent == *indent && line.text.starts_with("except"));
    begins && excepts.any(|line| takes(&line.text))
}

impl Line {
    /// The simple statements of the line: after `;`, and after the head of a compound statement.
    fn statements(&self) -> impl Iterator<Item = &str> {
        let mut depth = 0_usize;
        self.text
            .split(move |c: char| {
                match c {
                    '(' | '[' | '{' => depth += 1,
                    ')' | ']' | '}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                depth == 0 && matches!(c, ';' | ':')
            })
            .map(str::trim)
    }
}

/// Reads code character by character.
struct Scanner<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    number: usize,
    depth: usize,
    line: Line,
    done: Vec<Line>,
}

impl<'a> Scanner<'a> {
    fn new(code: &'a str) -> Self {
        let line = Line { number: 1, ..Line::default() };
        Self { rest: code.chars().peekable(), number: 1, depth: 0, line, done: Vec::new() }
    }

    fn lines(mut self) -> Vec<Line> {
        while let Some(c) = self.rest.next() {
            match c {
                '\n' if self.depth == 0 => self.end_line(),
                '\n' => self.next_line(),
                '#' => while self.rest.next_if(|c| *c != '\n').is_some() {},
                '\\' => {
                    self.rest.next_if_eq(&'\r');
                    if self.rest.next_if_eq(&'\n').is_some() {
                        self.next_line();
                    }
                }
                '"' | '\'' => self.skip_text(c),
                ' ' | '\t' | '\x0c' if self.line.text.is_empty() => self.line.indent += 1,
                '\r' => {}
                other => self.push(other),
            }
        }
        self.end_line();
        self.done
    }

    fn push(&mut self, c: char) {
        match c {
            '(' | '[' | '{' => self.depth += 1,
            ')' | ']' | '}' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        if self.line.text.is_empty() {
            self.line.number = self.number;
        }
        self.line.text.push(c);
    }

    /// Goes to the next line of the text within the same logical line.
    fn next_line(&mut self) {
        self.number += 1;
        if !self.line.text.is_empty() {
            self.line.text.push(' ');
        }
    }

    fn end_line(&mut self) {
        self.number += 1;
        let line = std::mem::replace(&mut self.line, Line { number: self.number, ..Line::default() });
        if !line.text.is_empty() {
            self.done.push(line);
        }
    }

    /// Skips a text, of which the opening quote is read. Raw texts end as others do; a short one ends with its line.
    fn skip_text(&mut self, quote: char) {
        self.push('"');
        let mut ahead = self.rest.clone();
        let is_long = match (ahead.next_if_eq(&quote), ahead.next_if_eq(&quote)) {
            (Some(_), Some(_)) => {
                self.rest = ahead;
                true
            }
            (Some(_), None) => {
                self.rest.next();
                return;
            }
            (None, _) => false,
        };
        let wanted = if is_long { 3 } else { 1 };
        let mut closing = 0;
        while closing < wanted {
            match self.rest.next() {
                None => return,
                Some('\\') => {
                    self.number += usize::from(self.rest.next() == Some('\n'));
                    closing = 0;
                }
                Some('\n') if !is_long => return self.end_line(),
                Some('\n') => (self.number, closing) = (self.number + 1, 0),
                Some(c) if c == quote => closing += 1,
                Some(_) => closing = 0,
            }
        }
    }
}

//! The names of a host that JavaScript code asks for: `require("x")`, `import … from "x"` and `fetch(`.

use super::Module;

/// A piece of code.
#[derive(Debug, Clone, PartialEq)]
enum Token {
    Name(String),
    Text(String),
    Mark(char),
}

/// The modules in the order of the code.
pub(super) fn uses(code: &str) -> Vec<Module> {
    let tokens = tokens(code);
    let token = |at: usize| tokens.get(at).map(|(_, token)| token);
    let is_mark = |at: usize, mark: char| token(at) == Some(&Token::Mark(mark));
    let is_name = |at: usize, name: &str| matches!(token(at), Some(Token::Name(own)) if own == name);
    let has_fetch = declares(&tokens, "fetch");
    let mut found = Vec::new();
    for (at, (line, _)) in tokens.iter().enumerate() {
        // A method, or a function of this name that the code has itself.
        let is_own = at > 0 && (is_mark(at - 1, '.') || is_name(at - 1, "function"));
        let name = match (token(at + 1), token(at + 2)) {
            (Some(Token::Mark('(')), Some(Token::Text(module))) if is_name(at, "require") && !is_own => {
                module
            }
            (Some(Token::Mark('(')), _) if is_name(at, "fetch") && !is_own && !has_fetch => "fetch",
            (Some(Token::Text(module)), _) if is_name(at, "from") || is_name(at, "import") => module,
            _ => continue,
        };
        found.push(Module { name: name.to_owned(), package: None, line: *line, is_optional: false });
    }
    found
}

/// Whether the code has a function or variable of this name.
fn declares(tokens: &[(usize, Token)], name: &str) -> bool {
    tokens.windows(2).any(|pair| match (&pair[0].1, &pair[1].1) {
        (Token::Name(word), Token::Name(own)) => {
            own == name && matches!(word.as_str(), "function" | "const" | "let" | "var")
        }
        _ => false,
    })
}

/// Names, texts and marks with their lines; comments and regular expressions are left out.
fn tokens(code: &str) -> Vec<(usize, Token)> {
    let mut rest = code.chars().peekable();
    let (mut line, mut found) = (1, Vec::<(usize, Token)>::new());
    while let Some(c) = rest.next() {
        let token = match c {
            '\n' => {
                line += 1;
                continue;
            }
            c if c.is_whitespace() => continue,
            '/' if rest.next_if_eq(&'/').is_some() => {
                while rest.next_if(|c| *c != '\n').is_some() {}
                continue;
            }
            '/' if rest.next_if_eq(&'*').is_some() => {
                let mut last = ' ';
                for c in rest.by_ref() {
                    line += usize::from(c == '\n');
                    if (last, c) == ('*', '/') {
                        break;
                    }
                    last = c;
                }
                continue;
            }
            '/' if begins_expression(found.last()) => {
                let mut in_class = false;
                while let Some(c) = rest.next_if(|c| *c != '\n') {
                    match c {
                        '\\' => drop(rest.next_if(|c| *c != '\n')),
                        '[' => in_class = true,
                        ']' => in_class = false,
                        '/' if !in_class => break,
                        _ => {}
                    }
                }
                Token::Text(String::new())
            }
            '"' | '\'' | '`' => {
                let (text, lines) = text(&mut rest, c);
                found.push((line, Token::Text(text)));
                line += lines;
                continue;
            }
            c if c.is_alphanumeric() || matches!(c, '_' | '$') => {
                let mut name = String::from(c);
                while let Some(c) = rest.next_if(|c| c.is_alphanumeric() || matches!(c, '_' | '$')) {
                    name.push(c);
                }
                Token::Name(name)
            }
            other => Token::Mark(other),
        };
        found.push((line, token));
    }
    found
}

/// Reads a text, of which the quote is read, and counts its lines. Code inside a template counts as text.
fn text(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, quote: char) -> (String, usize) {
    let (mut text, mut lines) = (String::new(), 0);
    while let Some(c) = rest.next_if(|c| quote == '`' || *c != '\n') {
        lines += usize::from(c == '\n');
        match c {
            '\\' => lines += usize::from(rest.next() == Some('\n')),
            c if c == quote => break,
            c => text.push(c),
        }
    }
    (text, lines)
}

/// Whether a `/` after this token begins a regular expression; after a value it divides.
fn begins_expression(last: Option<&(usize, Token)>) -> bool {
    match last {
        None => true,
        Some((_, Token::Text(_))) => false,
        Some((_, Token::Name(name))) => matches!(name.as_str(), "return" | "typeof" | "case" | "in" | "of"),
        Some((_, Token::Mark(mark))) => !matches!(mark, ')' | ']' | '}'),
    }
}

//! Parses expressions, from the loosest binding to the tightest.

use super::lexer::{Kind, Token};
use super::{Parser, Stop, wrong};

/// The kind of an expression, as far as the check needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    /// A name, or the attribute of a namespace in an assignment.
    Target,
    Tuple(Vec<Node>),
    Call,
    /// An expression that cannot be assigned to, with Jinja2's name for it.
    Other(&'static str),
}

impl Node {
    fn can_be_assigned(&self) -> bool {
        match self {
            Self::Target => true,
            Self::Tuple(items) => items.iter().all(Self::can_be_assigned),
            Self::Call | Self::Other(_) => false,
        }
    }
    /// Refuses an expression that cannot be assigned to.
    pub(super) fn assigned(&self) -> Result<(), Stop> {
        let name = match self {
            _ if self.can_be_assigned() => return Ok(()),
            Self::Target => "name",
            Self::Tuple(_) => "tuple",
            Self::Call => "call",
            Self::Other(name) => name,
        };
        wrong(format!("can't assign to '{name}'"))
    }
}

/// Options for expressions separated by commas.
#[derive(Default)]
pub(super) struct Tuple {
    /// Only names and literals.
    pub(super) simple: bool,
    /// Also attributes of namespaces.
    pub(super) namespaces: bool,
    /// Without `a if b else c`.
    pub(super) no_condition: bool,
    /// The word that ends it.
    pub(super) end: Option<&'static str>,
    /// Inside brackets, where it may be empty.
    pub(super) brackets: bool,
}

impl<'s> Parser<'s> {
    /// Parses one expression, or several separated by commas.
    pub(super) fn tuple(&mut self, how: &Tuple) -> Result<Node, Stop> {
        let mut items = Vec::new();
        let mut is_tuple = false;
        loop {
            if !items.is_empty() {
                self.expect_sign(",")?;
            }
            let token = self.current()?;
            if matches!(token.kind, Kind::PrintEnd | Kind::BlockEnd)
                || token.is_sign(")")
                || how.end.is_some_and(|end| token.is_name(end))
            {
                break;
            }
            items.push(match how {
                Tuple { simple: true, .. } => self.primary(how.namespaces)?,
                Tuple { no_condition: true, .. } => self.deeper(Self::or)?,
                _ => self.expression()?,
            });
            if !self.sees_sign(",")? {
                break;
            }
            is_tuple = true;
        }
        match items.pop() {
            Some(only) if !is_tuple => Ok(only),
            None if !how.brackets => {
                wrong(format!("Expected an expression, got '{}'", self.current()?.shown()))
            }
            last => {
                items.extend(last);
                Ok(Node::Tuple(items))
            }
        }
    }

    pub(super) fn expression(&mut self) -> Result<Node, Stop> {
        self.deeper(|parser| {
            let mut node = parser.or()?;
            while parser.skip_name("if")? {
                parser.or()?;
                if parser.skip_name("else")? {
                    parser.expression()?;
                }
                node = Node::Other("condexpr");
            }
            Ok(node)
        })
    }

    fn or(&mut self) -> Result<Node, Stop> {
        let mut node = self.not()?;
        while self.skip_name("or")? || self.skip_name("and")? {
            self.not()?;
            node = Node::Other("or");
        }
        Ok(node)
    }

    fn not(&mut self) -> Result<Node, Stop> {
        if self.skip_name("not")? {
            self.deeper(Self::not)?;
            return Ok(Node::Other("not"));
        }
        let mut node = self.arithmetic()?;
        loop {
            let token = self.current()?;
            let not_in = token.is_name("not") && self.following().is_some_and(|next| next.is_name("in"));
            if not_in {
                self.next()?;
            }
            let compares =
                token.kind == Kind::Sign && matches!(token.text, "==" | "!=" | "<" | "<=" | ">" | ">=");
            if !(compares || not_in || token.is_name("in")) {
                return Ok(node);
            }
            self.next()?;
            self.arithmetic()?;
            node = Node::Other("compare");
        }
    }

    /// Parses operands with operators between them. Precedence does not matter for the check.
    fn arithmetic(&mut self) -> Result<Node, Stop> {
        let mut node = self.operand(true)?;
        loop {
            let token = self.current()?;
            if token.kind != Kind::Sign
                || !matches!(token.text, "+" | "-" | "~" | "*" | "/" | "//" | "%" | "**")
            {
                return Ok(node);
            }
            self.next()?;
            self.operand(true)?;
            node = Node::Other("add");
        }
    }

    fn operand(&mut self, filters: bool) -> Result<Node, Stop> {
        let mut node = if self.skip_sign("-")? || self.skip_sign("+")? {
            self.deeper(|parser| parser.operand(false))?;
            Node::Other("neg")
        } else {
            self.primary(false)?
        };
        while self.step(&mut node)? {}
        while filters && self.filter_or_test(&mut node)? {}
        Ok(node)
    }

    fn primary(&mut self, namespaces: bool) -> Result<Node, Stop> {
        let token = self.current()?;
        match (&token.kind, token.text) {
            (Kind::Name, name) => {
                self.next()?;
                if matches!(name, "true" | "false" | "none" | "True" | "False" | "None") {
                    return Ok(Node::Other("const"));
                }
                if namespaces && self.skip_sign(".")? {
                    self.expect_name()?;
                }
                Ok(Node::Target)
            }
            (Kind::Text, _) => {
                while self.sees(&Kind::Text)? {
                    self.next()?;
                }
                Ok(Node::Other("const"))
            }
            (Kind::Integer | Kind::Fraction, _) => self.next().map(|_| Node::Other("const")),
            (Kind::Sign, "(") => {
                self.next()?;
                let node = self.deeper(|p| p.tuple(&Tuple { brackets: true, ..Tuple::default() }))?;
                self.expect_sign(")")?;
                Ok(node)
            }
            (Kind::Sign, "[") => self.items("]", false).map(|()| Node::Other("list")),
            (Kind::Sign, "{") => self.items("}", true).map(|()| Node::Other("dict")),
            _ => wrong(format!("unexpected '{}'", token.shown())),
        }
    }

    /// Parses the items of a list or the pairs of an object, including the brackets.
    fn items(&mut self, end: &str, pairs: bool) -> Result<(), Stop> {
        self.next()?;
        let mut first = true;
        while !self.sees_sign(end)? {
            if !std::mem::take(&mut first) {
                self.expect_sign(",")?;
                if self.sees_sign(end)? {
                    break;
                }
            }
            self.expression()?;
            if pairs {
                self.expect_sign(":")?;
                self.expression()?;
            }
        }
        self.expect_sign(end).map(drop)
    }

    /// Parses an attribute, an item or a call after a value; returns false when there is none.
    fn step(&mut self, node: &mut Node) -> Result<bool, Stop> {
        if self.skip_sign(".")? {
            let token = self.next()?;
            if !matches!(token.kind, Kind::Name | Kind::Integer) {
                return wrong("expected name or number");
            }
            *node = Node::Other("getattr");
        } else if self.skip_sign("[")? {
            let mut first = true;
            while !self.sees_sign("]")? {
                if !std::mem::take(&mut first) {
                    self.expect_sign(",")?;
                }
                self.subscript()?;
            }
            self.expect_sign("]")?;
            *node = Node::Other("getitem");
        } else if self.sees_sign("(")? {
            self.arguments()?;
            *node = Node::Call;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn subscript(&mut self) -> Result<(), Stop> {
        if !self.sees_sign(":")? {
            self.expression()?;
        }
        for _ in 0..2 {
            if !self.skip_sign(":")? {
                break;
            }
            if ![":", "]", ","].iter().any(|sign| self.sees_sign(sign).unwrap_or(false)) {
                self.expression()?;
            }
        }
        Ok(())
    }

    fn arguments(&mut self) -> Result<(), Stop> {
        self.expect_sign("(")?;
        let (mut first, mut named, mut list, mut map) = (true, false, false, false);
        while !self.sees_sign(")")? {
            if !std::mem::take(&mut first) {
                self.expect_sign(",")?;
                if self.sees_sign(")")? {
                    break;
                }
            }
            let by_name = self.sees(&Kind::Name)? && self.following().is_some_and(|next| next.is_sign("="));
            let fits = if self.skip_sign("*")? {
                !std::mem::replace(&mut list, true) && !map
            } else if self.skip_sign("**")? {
                !std::mem::replace(&mut map, true)
            } else if by_name {
                self.next()?;
                self.next()?;
                named = true;
                !map
            } else {
                !(list || map || named)
            };
            if !fits {
                return wrong("invalid syntax for function call expression");
            }
            self.expression()?;
        }
        self.expect_sign(")").map(drop)
    }

    pub(super) fn filters(&mut self) -> Result<(), Stop> {
        while self.skip_sign("|")? {
            self.filter_name()?;
        }
        Ok(())
    }

    /// Parses the name of a filter, which may have dots, and its arguments.
    pub(super) fn filter_name(&mut self) -> Result<(), Stop> {
        self.dotted_name()?;
        if self.sees_sign("(")? {
            self.arguments()?;
        }
        Ok(())
    }

    fn dotted_name(&mut self) -> Result<(), Stop> {
        self.expect_name()?;
        while self.skip_sign(".")? {
            self.expect_name()?;
        }
        Ok(())
    }

    fn filter_or_test(&mut self, node: &mut Node) -> Result<bool, Stop> {
        if self.skip_sign("|")? {
            self.filter_name()?;
            *node = Node::Other("filter");
        } else if self.skip_name("is")? {
            self.test()?;
            *node = Node::Other("test");
        } else if self.sees_sign("(")? {
            self.arguments()?;
            *node = Node::Call;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn test(&mut self) -> Result<(), Stop> {
        self.skip_name("not")?;
        self.dotted_name()?;
        let next = self.current()?;
        if next.is_sign("(") {
            return self.arguments();
        }
        if !takes_bare(&next) {
            return Ok(());
        }
        if next.is_name("is") {
            return wrong("You cannot chain multiple tests with is");
        }
        let mut node = self.primary(false)?;
        while self.step(&mut node)? {}
        Ok(())
    }
}

/// True when a test takes this token as its argument without brackets.
fn takes_bare(next: &Token<'_>) -> bool {
    match next.kind {
        Kind::Name => !matches!(next.text, "else" | "or" | "and"),
        Kind::Text | Kind::Integer | Kind::Fraction => true,
        Kind::Sign => matches!(next.text, "[" | "{"),
        Kind::Data
        | Kind::PrintBegin
        | Kind::PrintEnd
        | Kind::BlockBegin
        | Kind::BlockEnd
        | Kind::End
        | Kind::Mistake(_) => false,
    }
}

//! Parses text, prints and blocks.

use super::expressions::{Node, Tuple};
use super::lexer::Kind;
use super::{Parser, Stop, wrong};

impl Parser<'_> {
    /// Parses up to one of the tags in `ends`, or up to the template's end when `ends` is `None`.
    pub(super) fn body(&mut self, ends: Option<&'static [&'static str]>) -> Result<(), Stop> {
        self.ends.extend(ends);
        loop {
            match self.current()?.kind {
                Kind::Data => {
                    self.next()?;
                }
                Kind::PrintBegin => {
                    self.next()?;
                    self.tuple(&Tuple::default())?;
                    self.expect(|token| token.kind == Kind::PrintEnd, "end of print statement")?;
                }
                Kind::BlockBegin => {
                    self.next()?;
                    let token = self.current()?;
                    if token.kind == Kind::Name && ends.is_some_and(|ends| ends.contains(&token.text)) {
                        break;
                    }
                    self.deeper(Self::statement)?;
                    self.block_end()?;
                }
                _ => break,
            }
        }
        if ends.is_some() {
            self.ends.pop();
        }
        Ok(())
    }

    fn block_end(&mut self) -> Result<(), Stop> {
        self.expect(|token| token.kind == Kind::BlockEnd, "end of statement block").map(drop)
    }

    fn statement(&mut self) -> Result<(), Stop> {
        let token = self.current()?;
        if token.kind != Kind::Name {
            return wrong("tag name expected");
        }
        self.tags.push(token.text);
        match token.text {
            "for" => self.for_loop()?,
            "if" => self.condition()?,
            "set" => self.set()?,
            "with" => self.with()?,
            "macro" => self.macro_()?,
            "call" => self.call()?,
            "filter" => {
                self.next()?;
                self.filter_name()?;
                self.filters()?;
                self.block(&["endfilter"])?;
            }
            "autoescape" => {
                self.next()?;
                self.expression()?;
                self.block(&["endautoescape"])?;
            }
            "block" => self.named_block()?,
            "print" => {
                self.next()?;
                let mut first = true;
                while !self.sees(&Kind::BlockEnd)? {
                    if !std::mem::take(&mut first) {
                        self.expect_sign(",")?;
                    }
                    self.expression()?;
                }
            }
            "extends" | "include" | "import" | "from" => self.other_template(token.text)?,
            name => {
                self.tags.pop();
                return self.lost(Some(name));
            }
        }
        self.tags.pop();
        Ok(())
    }

    /// Parses the body of a block, including the name of the tag that ends it, and returns that name.
    fn block(&mut self, ends: &'static [&'static str]) -> Result<&str, Stop> {
        self.skip_sign(":")?;
        self.block_end()?;
        self.body(Some(ends))?;
        if self.sees(&Kind::End)? {
            self.ends.push(ends);
            return self.lost(None);
        }
        self.next().map(|token| token.text)
    }

    /// Returns the error for a tag that does not belong here, or for the template's end.
    fn lost<T>(&self, tag: Option<&str>) -> Result<T, Stop> {
        let mut message = match tag {
            Some(tag) => format!("Encountered unknown tag '{tag}'."),
            None => "Unexpected end of template.".into(),
        };
        if let Some(ends) = self.ends.last() {
            let looking = ends.iter().map(|end| format!("'{end}'")).collect::<Vec<_>>().join(" or ");
            let nested = tag.is_some_and(|tag| self.ends.iter().any(|ends| ends.contains(&tag)));
            message += &if nested {
                format!(
                    " You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for {looking}."
                )
            } else {
                format!(" Jinja was looking for the following tags: {looking}.")
            };
        }
        if let Some(tag) = self.tags.last() {
            message += &format!(" The innermost block that needs to be closed is '{tag}'.");
        }
        wrong(message)
    }

    fn for_loop(&mut self) -> Result<(), Stop> {
        self.next()?;
        if self.sees_name("loop")? {
            return wrong("Can't assign to special loop variable in for-loop target");
        }
        self.target(&Tuple { simple: true, end: Some("in"), ..Tuple::default() })?;
        self.expect_word("in")?;
        self.tuple(&Tuple { no_condition: true, end: Some("recursive"), ..Tuple::default() })?;
        if self.skip_name("if")? {
            self.expression()?;
        }
        self.skip_name("recursive")?;
        if self.block(&["endfor", "else"])? == "else" {
            self.block(&["endfor"])?;
        }
        Ok(())
    }

    fn condition(&mut self) -> Result<(), Stop> {
        self.next()?;
        loop {
            self.tuple(&Tuple { no_condition: true, ..Tuple::default() })?;
            match self.block(&["elif", "else", "endif"])? {
                "elif" => {}
                "else" => return self.block(&["endif"]).map(drop),
                _ => return Ok(()),
            }
        }
    }

    fn set(&mut self) -> Result<(), Stop> {
        self.next()?;
        self.target(&Tuple { simple: true, namespaces: true, ..Tuple::default() })?;
        if self.skip_sign("=")? {
            return self.tuple(&Tuple::default()).map(drop);
        }
        self.filters()?;
        self.block(&["endset"]).map(drop)
    }

    fn with(&mut self) -> Result<(), Stop> {
        self.next()?;
        let mut first = true;
        while !self.sees(&Kind::BlockEnd)? {
            if !std::mem::take(&mut first) {
                self.expect_sign(",")?;
            }
            self.target(&Tuple { simple: true, ..Tuple::default() })?;
            self.expect_sign("=")?;
            self.expression()?;
        }
        self.block(&["endwith"]).map(drop)
    }

    fn macro_(&mut self) -> Result<(), Stop> {
        self.next()?;
        self.name_target()?;
        self.signature()?;
        self.block(&["endmacro"]).map(drop)
    }

    fn call(&mut self) -> Result<(), Stop> {
        self.next()?;
        if self.sees_sign("(")? {
            self.signature()?;
        }
        if self.expression()? != Node::Call {
            return wrong("expected call");
        }
        self.block(&["endcall"]).map(drop)
    }

    fn signature(&mut self) -> Result<(), Stop> {
        self.expect_sign("(")?;
        let (mut first, mut defaults) = (true, false);
        while !self.sees_sign(")")? {
            if !std::mem::take(&mut first) {
                self.expect_sign(",")?;
            }
            self.name_target()?;
            if self.skip_sign("=")? {
                self.expression()?;
                defaults = true;
            } else if defaults {
                return wrong("non-default argument follows default argument");
            }
        }
        self.expect_sign(")").map(drop)
    }

    fn named_block(&mut self) -> Result<(), Stop> {
        self.next()?;
        let name = self.expect_name()?.text;
        self.skip_name("scoped")?;
        self.skip_name("required")?;
        if self.sees_sign("-")? {
            return wrong(
                "Block names in Jinja have to be valid Python identifiers and may not contain hyphens, use an \
                 underscore instead.",
            );
        }
        self.block(&["endblock"])?;
        self.skip_name(name).map(drop)
    }

    /// Parses tags that name another template. There are no other templates, so only parts that can be wrong
    /// are parsed.
    fn other_template(&mut self, tag: &str) -> Result<(), Stop> {
        self.next()?;
        self.expression()?;
        match tag {
            "include" if self.sees_name("ignore")? => {
                self.next()?;
                self.skip_name("missing")?;
            }
            "import" => {
                self.expect_word("as")?;
                self.name_target()?;
            }
            "from" => {
                self.expect_word("import")?;
                self.name_target()?;
                // The rest is ignored: without another template the tag has no effect.
                while !self.sees(&Kind::BlockEnd)? && !self.sees(&Kind::End)? {
                    self.next()?;
                }
            }
            _ => {}
        }
        if self.skip_name("with")? || self.skip_name("without")? {
            self.skip_name("context")?;
        }
        Ok(())
    }

    fn target(&mut self, how: &Tuple) -> Result<(), Stop> {
        self.tuple(how)?.assigned()
    }

    fn name_target(&mut self) -> Result<(), Stop> {
        let name = self.expect_name()?;
        if matches!(name.text, "true" | "false" | "none" | "True" | "False" | "None") {
            return wrong("can't assign to 'name'");
        }
        Ok(())
    }
}

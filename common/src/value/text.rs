//! TODO
use super::Segment;
impl Segment {
    /// text
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        "".into()
    }
    /// md
    pub fn markdown(&self) -> std::borrow::Cow<'_, str> {
        "".into()
    }
    /// log
    pub fn log(&self) -> std::borrow::Cow<'_, str> {
        "".into()
    }
}

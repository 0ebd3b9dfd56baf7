//! The arguments of scripts: texts and numbers in one list.

/// An argument of a script.
pub(in crate::store::redis) enum Arg<'a> {
    Text(&'a str),
    Owned(String),
}
impl Arg<'_> {
    /// The argument as it is sent.
    pub(in crate::store::redis) fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Owned(text) => text,
        }
    }
}
impl<'a> From<&'a str> for Arg<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}
impl<'a> From<&'a String> for Arg<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}
impl From<String> for Arg<'_> {
    fn from(text: String) -> Self {
        Self::Owned(text)
    }
}
macro_rules! number_args {
    ($($ty:ty)*) => { $(impl From<$ty> for Arg<'_> {
        fn from(number: $ty) -> Self {
            Self::Owned(number.to_string())
        }
    })* };
}
number_args!(u16 u32 u64 i64 usize u128);

/// Builds script arguments of different types.
macro_rules! args {
    ($($arg:expr),* $(,)?) => { [$($crate::store::redis::connection::args::Arg::from($arg)),*] };
}
pub(in crate::store::redis) use args;

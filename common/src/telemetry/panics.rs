//! What a process says when it panics: where. The message of a panic may quote a value, and a value may be a secret, whole or
//! cut; the place in the source says enough to fix it.

use std::any::Any;
use std::panic::{PanicHookInfo, set_hook};

/// Stands for a message that was put together from values.
const WITHHELD: &str = "(its message may quote a value, and is not shown)";

/// Lets this process say of a panic where it was, and what the source itself says of it.
pub fn start_panics() {
    set_hook(Box::new(|panic| {
        let said = line(panic);
        if tracing::dispatcher::has_been_set() {
            tracing::error!(said, "a thread panicked");
        } else {
            complain(&said);
        }
    }));
}

#[allow(clippy::print_stderr, reason = "there is no log yet")]
fn complain(said: &str) {
    eprintln!("a thread panicked: {said}");
}

fn line(panic: &PanicHookInfo<'_>) -> String {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    format!("{place} in {}: {}", thread.name().unwrap_or("a thread"), said(panic.payload()))
}

/// What a panic says, if that stands so in the source.
pub fn said(panic: &(dyn Any + Send)) -> &'static str {
    panic.downcast_ref::<&'static str>().copied().unwrap_or(WITHHELD)
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_panic_says_what_stands_in_the_source_and_no_value() {
        let value = String::from("an ä of a secret");
        let told = |panic: Box<dyn Any + Send>| said(&*panic);
        assert_eq!(
            catch_unwind(|| panic!("a run has no frame")).map_err(told),
            Err::<(), _>("a run has no frame")
        );
        assert_eq!(catch_unwind(|| panic!("{value}")).map_err(told), Err::<(), _>(WITHHELD));
        // The library's own quote values, too.
        assert_eq!(catch_unwind(|| value[..4].len()).map_err(told), Err(WITHHELD));
        assert_eq!(catch_unwind(|| value.parse::<u8>().unwrap()).map_err(told), Err(WITHHELD));
    }
}

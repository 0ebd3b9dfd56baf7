//! Logs the place of a panic, not its message. The message may quote a value, and a value may be a secret, whole or
//! cut; the place in the source says enough to fix it.

use std::any::Any;
use std::panic::{PanicHookInfo, set_hook};

/// Replaces a message that was formatted from values.
const WITHHELD: &str = "(its message may quote a value, and is not shown)";

/// Makes this process log its panics in this way.
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
    format!("{place} in {}: {}", thread.name().unwrap_or("a thread"), panic_message(panic.payload()))
}

/// Returns the message of a panic if it is a literal in the source.
pub fn panic_message(panic: &(dyn Any + Send)) -> &'static str {
    panic.downcast_ref::<&'static str>().copied().unwrap_or(WITHHELD)
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn only_a_literal_message_of_a_panic_is_shown() {
        let value = String::from("an ä of a secret");
        let told = |panic: Box<dyn Any + Send>| panic_message(&*panic);
        assert_eq!(
            catch_unwind(|| panic!("a run has no frame")).map_err(told),
            Err::<(), _>("a run has no frame")
        );
        assert_eq!(catch_unwind(|| panic!("{value}")).map_err(told), Err::<(), _>(WITHHELD));
        // Messages of the standard library quote values.
        assert_eq!(catch_unwind(|| value[..4].len()).map_err(told), Err(WITHHELD));
        assert_eq!(catch_unwind(|| value.parse::<u8>().unwrap()).map_err(told), Err(WITHHELD));
    }
}

//! Formats durations and times, and makes text from elsewhere safe for a terminal.

/// Formats a duration in seconds: `12ms`, `1.2s`, `2m05s`, `1h02m`.
pub(crate) fn duration(seconds: f64) -> String {
    // The clocks of two machines may differ a little, which can make this negative.
    let seconds = seconds.max(0.0);
    let whole = seconds.round() as u64;
    if seconds < 0.9995 {
        format!("{}ms", (seconds * 1000.0).round() as u64)
    } else if seconds < 59.95 {
        format!("{seconds:.1}s")
    } else if whole < 3600 {
        format!("{}m{:02}s", whole / 60, whole % 60)
    } else {
        format!("{}h{:02}m", whole / 3600, whole % 3600 / 60)
    }
}

/// Formats how long ago a time was; both times are Unix seconds.
pub(crate) fn age(then: f64, now: f64) -> String {
    let seconds = (now - then).max(0.0) as u64;
    match seconds {
        0..60 => format!("{seconds}s ago"),
        60..3600 => format!("{}m ago", seconds / 60),
        3600..86_400 => format!("{}h ago", seconds / 3600),
        _ => format!("{}d ago", seconds / 86_400),
    }
}

/// Formats a Unix time as UTC, to the second.
pub(crate) fn moment(seconds: f64) -> String {
    chrono::DateTime::from_timestamp(seconds as i64, 0)
        .map_or_else(String::new, |time| time.format("%Y-%m-%d %H:%M:%S UTC").to_string())
}

/// Formats a number of bytes: `512 B`, `1.5 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut at) = (bytes as f64, 0);
    while value >= 1024.0 && at + 1 < UNITS.len() {
        value /= 1024.0;
        at += 1;
    }
    if at == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[at]) }
}

/// Puts text on one line: control characters, which could control the terminal, become spaces.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if is_steering(c) { ' ' } else { c }).collect()
}

/// Keeps line breaks but removes all other characters that could control the terminal.
pub(crate) fn safe(text: &str) -> String {
    text.chars().filter(|c| matches!(c, '\n' | '\t') || !is_steering(*c)).collect()
}

fn is_steering(c: char) -> bool {
    // Also the characters that change the direction of writing.
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Cuts a text to at most `chars_max` characters and marks the cut.
pub(crate) fn shortened(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.into();
    }
    let mut short: String = text.chars().take(chars_max.saturating_sub(1)).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_formatted_in_a_fitting_unit() {
        let cases = [
            (-1.0, "0ms"),
            (0.0124, "12ms"),
            (0.9996, "1.0s"),
            (1.25, "1.2s"),
            (59.96, "1m00s"),
            (125.0, "2m05s"),
            (3720.0, "1h02m"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(duration(seconds), expected, "{seconds}");
        }
        for (seconds, expected) in
            [(-5.0, "0s ago"), (61.0, "1m ago"), (7200.0, "2h ago"), (200_000.0, "2d ago")]
        {
            assert_eq!(age(0.0, seconds), expected);
        }
        assert_eq!(moment(1_754_339_718.6), "2025-08-04 20:35:18 UTC");
    }

    #[test]
    fn sizes_are_formatted_in_a_fitting_unit() {
        for (bytes, expected) in [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 40, "1.0 TiB")] {
            assert_eq!(size(bytes), expected);
        }
    }

    #[test]
    fn text_from_elsewhere_cannot_control_the_terminal() {
        assert_eq!(one_line("a\x1b[2Jb\nc\u{202e}d"), "a [2Jb c d");
        assert_eq!(safe("a\x1b[2J\nb\tc\r"), "a[2J\nb\tc");
        assert_eq!(shortened("größer", 4), "grö…");
        assert_eq!(shortened("größer", 6), "größer");
    }
}

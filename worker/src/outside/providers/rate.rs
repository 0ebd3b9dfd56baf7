//! Reads the rate limits in an answer's headers, in the forms of OpenAI and Anthropic.

use std::time::Duration;

use reqwest::header::HeaderMap;

use crate::outside::providers::reply::{RateFacts, RateWindow};

const MINUTE_MS: u64 = 60_000;

/// Reads the headers. Times are compared with `now_unix_ms`.
pub fn facts(headers: &HeaderMap, now_unix_ms: i64) -> RateFacts {
    let headers = Headers { headers, now_unix_ms };
    let first = |windows: [RateWindow; 3]| {
        windows.into_iter().find(|window| *window != RateWindow::default()).unwrap_or_default()
    };
    RateFacts {
        requests: first([headers.openai("requests"), headers.anthropic("requests"), RateWindow::default()]),
        tokens: first([
            headers.openai("tokens"),
            headers.anthropic("tokens"),
            headers.anthropic("input-tokens"),
        ]),
    }
}

/// The time until a used-up limit is reset; `None` if no limit is known to be used up.
pub fn until_reset(facts: RateFacts) -> Option<Duration> {
    let used_up = [facts.requests, facts.tokens].into_iter().filter(|window| window.remaining == Some(0));
    used_up.filter_map(|window| window.reset_ms).max().map(Duration::from_millis)
}

/// Estimates the limits after some time. They refill steadily until the reset, or within a minute if no reset is known.
pub fn aged(facts: RateFacts, ago: Duration) -> RateFacts {
    let ago_ms = u64::try_from(ago.as_millis()).unwrap_or(u64::MAX);
    let aged = |window: RateWindow| {
        let reset_ms = window.reset_ms.unwrap_or(MINUTE_MS);
        let remaining = window.remaining.and_then(|left| match window.limit {
            Some(limit) if ago_ms < reset_ms => {
                let back = u128::from(limit.saturating_sub(left)) * u128::from(ago_ms) / u128::from(reset_ms);
                Some(left.saturating_add(u64::try_from(back).unwrap_or(u64::MAX)))
            }
            Some(limit) => Some(limit.max(left)),
            None => Some(left).filter(|_| ago_ms < reset_ms),
        });
        let reset_ms = window.reset_ms.map(|reset_ms| reset_ms.saturating_sub(ago_ms));
        RateWindow { remaining, reset_ms, ..window }
    };
    RateFacts { requests: aged(facts.requests), tokens: aged(facts.tokens) }
}

struct Headers<'a> {
    headers: &'a HeaderMap,
    now_unix_ms: i64,
}

impl Headers<'_> {
    fn openai(&self, what: &str) -> RateWindow {
        self.window(|key| format!("x-ratelimit-{key}-{what}"))
    }

    fn anthropic(&self, what: &str) -> RateWindow {
        self.window(|key| format!("anthropic-ratelimit-{what}-{key}"))
    }

    fn window(&self, name: impl Fn(&str) -> String) -> RateWindow {
        let text = |key: &str| self.headers.get(name(key)).and_then(|value| value.to_str().ok());
        let count = |key: &str| text(key).and_then(|text| text.trim().parse().ok());
        let reset = text("reset").and_then(|text| self.until(text.trim()));
        RateWindow { limit: count("limit"), remaining: count("remaining"), reset_ms: reset }
    }

    /// Parses a duration (`6m0s`, `20ms`, `1.5`) or a time (RFC 3339), in milliseconds from now.
    fn until(&self, text: &str) -> Option<u64> {
        if let Ok(moment) = chrono::DateTime::parse_from_rfc3339(text) {
            return Some(u64::try_from(moment.timestamp_millis() - self.now_unix_ms).unwrap_or(0));
        }
        let span = span(text)?;
        u64::try_from(span.as_millis()).ok()
    }
}

/// Parses consecutive numbers with units; a number without a unit is seconds.
fn span(text: &str) -> Option<Duration> {
    let (mut total, mut rest) = (0.0, text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        total += number
            * match &rest[..letters] {
                "d" => 86_400.0,
                "h" => 3_600.0,
                "m" => 60.0,
                "s" | "" => 1.0,
                "ms" => 0.001,
                "us" | "µs" => 0.000_001,
                "ns" => 0.000_000_001,
                _ => return None,
            };
        rest = &rest[letters..];
    }
    Duration::try_from_secs_f64(total).ok().filter(|_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000;

    fn read(pairs: &[(&'static str, &str)]) -> RateFacts {
        let headers = pairs
            .iter()
            .map(|(name, value)| (reqwest::header::HeaderName::from_static(name), value.parse().unwrap()));
        facts(&headers.collect(), NOW)
    }

    fn window(limit: u64, remaining: u64, reset_ms: u64) -> RateWindow {
        RateWindow { limit: Some(limit), remaining: Some(remaining), reset_ms: Some(reset_ms) }
    }

    #[test]
    fn both_forms_of_headers_are_read() {
        let openai = read(&[
            ("x-ratelimit-limit-requests", "60"),
            ("x-ratelimit-remaining-requests", "59"),
            ("x-ratelimit-reset-requests", "1s"),
            ("x-ratelimit-limit-tokens", "150000"),
            ("x-ratelimit-remaining-tokens", "0"),
            ("x-ratelimit-reset-tokens", "6m0s"),
        ]);
        let expected = RateFacts { requests: window(60, 59, 1000), tokens: window(150_000, 0, 360_000) };
        assert_eq!(openai, expected);
        assert_eq!(until_reset(openai), Some(Duration::from_secs(360)));
        let anthropic = read(&[
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-requests-remaining", "49"),
            ("anthropic-ratelimit-requests-reset", "2023-11-14T22:13:21Z"),
            ("anthropic-ratelimit-input-tokens-limit", "7"),
            ("anthropic-ratelimit-input-tokens-remaining", "6"),
            ("anthropic-ratelimit-input-tokens-reset", "2000-01-01T00:00:00Z"),
        ]);
        assert_eq!(anthropic, RateFacts { requests: window(50, 49, 1000), tokens: window(7, 6, 0) });
        assert_eq!(until_reset(anthropic), None);
        assert_eq!(read(&[]), RateFacts::default());
    }

    #[test]
    fn what_is_left_grows_back_while_a_reply_is_read() {
        let half = RateWindow { reset_ms: None, ..window(100, 40, 0) };
        let unlimited = RateWindow { limit: None, ..window(0, 3, 1000) };
        for (before, ago_ms, left, reset_ms) in [
            (window(60, 0, 60_000), 0, Some(0), Some(60_000)),
            (window(60, 0, 60_000), 5_000, Some(5), Some(55_000)),
            (window(60, 30, 30_000), 10_000, Some(40), Some(20_000)),
            (window(60, 30, 30_000), 30_000, Some(60), Some(0)),
            (window(60, 60, 0), 0, Some(60), Some(0)),
            (half, 30_000, Some(70), None),
            (unlimited, 500, Some(3), Some(500)),
            (unlimited, 1000, None, Some(0)),
            (RateWindow::default(), 9, None, None),
        ] {
            let facts = RateFacts { requests: before, tokens: RateWindow::default() };
            let later = aged(facts, Duration::from_millis(ago_ms)).requests;
            assert_eq!((later.remaining, later.reset_ms), (left, reset_ms), "{before:?} after {ago_ms} ms");
        }
    }

    #[test]
    fn spans_have_units() {
        for (text, ms) in [
            ("1s", Some(1000)),
            ("20ms", Some(20)),
            ("1h2m3.5s", Some(3_723_500)),
            ("7", Some(7000)),
            ("0.25", Some(250)),
            ("", None),
            ("soon", None),
            ("1 s", None),
            ("1e9d", None),
        ] {
            assert_eq!(span(text).map(|span| span.as_millis()), ms, "{text:?}");
        }
    }
}

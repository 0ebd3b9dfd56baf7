//! Limits of the messages of a run, and thresholds for warnings about long message lists.

use tidemill_base::limits;

/// The limits of one run, fixed when it is submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageLimits {
    /// Most messages of a list (`messages_max`).
    pub messages_max: u64,
    /// Most bytes of a list (`messages_bytes_max`).
    pub messages_bytes_max: u64,
    /// Most bytes of `rt` (`runtime_bytes_max`).
    pub runtime_bytes_max: u64,
    /// Most records of the history (`history_records_max`).
    pub history_records_max: u64,
    /// Most bytes of a record (`history_record_bytes_max`).
    pub history_record_bytes_max: u64,
    /// Number of tokens in visible messages above which a list should be shortened (`messages_tokens_limit`);
    /// 0: no event.
    pub tokens_limit: u64,
    /// Number of tokens at whose [`TOKENS_WARNING_PERCENT`] a warning is sent (`messages_tokens_warning`); 0:
    /// no event.
    pub tokens_warning: u64,
}

/// The percentage of [`MessageLimits::tokens_warning`] at which a warning is sent.
pub const TOKENS_WARNING_PERCENT: u64 = 80;

impl Default for MessageLimits {
    fn default() -> Self {
        Self {
            messages_max: limits::MESSAGES_MAX,
            messages_bytes_max: limits::MESSAGES_BYTES_MAX,
            runtime_bytes_max: limits::RUNTIME_BYTES_MAX,
            history_records_max: limits::HISTORY_RECORDS_MAX,
            history_record_bytes_max: limits::HISTORY_RECORD_BYTES_MAX,
            tokens_limit: limits::MESSAGES_TOKENS_LIMIT,
            tokens_warning: limits::MESSAGES_TOKENS_WARNING,
        }
    }
}

impl MessageLimits {
    /// The keys of the limits in settings and options.
    pub const KEYS: [&str; 7] = [
        "messages_max",
        "messages_bytes_max",
        "runtime_bytes_max",
        "history_records_max",
        "history_record_bytes_max",
        "messages_tokens_limit",
        "messages_tokens_warning",
    ];

    /// Returns the limit of a key.
    pub fn of(&mut self, key: &str) -> Option<&mut u64> {
        Some(match key {
            "messages_max" => &mut self.messages_max,
            "messages_bytes_max" => &mut self.messages_bytes_max,
            "runtime_bytes_max" => &mut self.runtime_bytes_max,
            "history_records_max" => &mut self.history_records_max,
            "history_record_bytes_max" => &mut self.history_record_bytes_max,
            "messages_tokens_limit" => &mut self.tokens_limit,
            "messages_tokens_warning" => &mut self.tokens_warning,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_has_its_key() {
        let mut limits = MessageLimits::default();
        for (at, key) in MessageLimits::KEYS.into_iter().enumerate() {
            *limits.of(key).unwrap() = at as u64;
        }
        let mut seen: Vec<u64> =
            MessageLimits::KEYS.into_iter().map(|key| *limits.of(key).unwrap()).collect();
        seen.dedup();
        assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(limits.of("messages"), None);
    }
}

//! Exact decimals for prices, formatted as on Dify.
//!
//! Dify computes prices with Python's `Decimal` and shows them as text with their scale: `"0.0000130"`, `"1E-7"`, and
//! `"0E-7"` for a priced zero. Only the operations for prices are here: parse, multiply, add, round to seven places,
//! two formats.

use std::fmt;
use std::str::FromStr;

/// Decimal places of a rounded amount (Dify's).
pub const AMOUNT_PLACES: u32 = 7;
/// Longest accepted decimal text, in characters. Prices have few digits, so their products with realistic token counts
/// are far below the limit of `u128`. Above it they saturate.
const TEXT_CHARS_MAX: usize = 16;

/// A number from zero up: `digits` with the point `scale` places from the right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decimal {
    digits: u128,
    scale: u32,
}

/// The text is not a valid price.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a price: write a decimal number from 0 up, such as \"0.15\", with at most 16 characters"
)]
pub struct DecimalError(pub String);

impl Decimal {
    /// Dify's text for "no price": `0.0`.
    pub const UNPRICED: Self = Self { digits: 0, scale: 1 };

    /// The price of `tokens` tokens, rounded half up to [`AMOUNT_PLACES`]. `self` is the price, `unit` the share of one
    /// token in the amount that the price is for.
    #[must_use]
    pub fn amount(self, unit: Self, tokens: u64) -> Self {
        let product = self.digits.saturating_mul(unit.digits).saturating_mul(u128::from(tokens));
        Self { digits: product, scale: self.scale + unit.scale }.rounded()
    }

    /// The sum, with the larger scale of the two.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let scale = self.scale.max(other.scale);
        Self { digits: self.widened(scale).saturating_add(other.widened(scale)), scale }
    }

    /// The difference, with the larger scale of the two; zero when the other is larger.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        let scale = self.scale.max(other.scale);
        Self { digits: self.widened(scale).saturating_sub(other.widened(scale)), scale }
    }

    /// Plain notation at any size: `0.0000001`.
    pub fn fixed(self) -> String {
        let digits = self.digits.to_string();
        let scale = self.scale as usize;
        if scale == 0 {
            return digits;
        }
        let padded = format!("{digits:0>width$}", width = scale + 1);
        let (whole, part) = padded.split_at(padded.len() - scale);
        format!("{whole}.{part}")
    }

    /// True for zero.
    pub const fn is_zero(self) -> bool {
        self.digits == 0
    }

    /// The value in units of `10^-places`, rounded down.
    pub fn units(self, places: u32) -> u128 {
        let wide = self.widened(places.max(self.scale));
        wide / 10u128.saturating_pow(self.scale.saturating_sub(places))
    }

    /// Builds a value from units of `10^-places`.
    pub const fn of_units(digits: u128, places: u32) -> Self {
        Self { digits, scale: places }
    }

    fn widened(self, scale: u32) -> u128 {
        self.digits.saturating_mul(10u128.saturating_pow(scale.saturating_sub(self.scale)))
    }

    fn rounded(self) -> Self {
        if self.scale <= AMOUNT_PLACES {
            return Self { digits: self.widened(AMOUNT_PLACES), scale: AMOUNT_PLACES };
        }
        let divisor = 10u128.saturating_pow(self.scale - AMOUNT_PLACES);
        let (whole, rest) = (self.digits / divisor, self.digits % divisor);
        Self { digits: whole + u128::from(rest >= divisor.div_ceil(2)), scale: AMOUNT_PLACES }
    }
}

/// Like Python's `str(Decimal)`: plain down to 1e-6, below that with an exponent.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.digits.to_string();
        // The exponent of the first digit.
        let exponent = digits.len() as i64 - 1 - i64::from(self.scale);
        if exponent >= -6 {
            return f.write_str(&self.fixed());
        }
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        write!(f, "{first}{point}{rest}E{exponent}")
    }
}

impl FromStr for Decimal {
    type Err = DecimalError;
    /// Reads plain notation (`0.15`) and an exponent (`1e-6`).
    fn from_str(text: &str) -> Result<Self, DecimalError> {
        parse(text.trim()).ok_or_else(|| DecimalError(text.into()))
    }
}

fn parse(text: &str) -> Option<Decimal> {
    if text.len() > TEXT_CHARS_MAX {
        return None;
    }
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let joined = format!("{whole}{part}");
    if joined.is_empty() || !joined.bytes().all(|b| b.is_ascii_digit()) || exponent.abs() > 12 {
        return None;
    }
    let digits: u128 = joined.parse().ok()?;
    let scale = i32::try_from(part.len()).ok()? - exponent;
    match u32::try_from(scale) {
        Ok(scale) => Some(Decimal { digits, scale }),
        Err(_) => Some(Decimal { digits: digits * 10u128.pow(scale.unsigned_abs()), scale: 0 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        text.parse().unwrap()
    }

    #[test]
    fn text_keeps_the_scale_and_turns_to_an_exponent_below_a_millionth() {
        for (given, shown, fixed) in [
            ("0.0", "0.0", "0.0"),
            ("2.50", "2.50", "2.50"),
            ("0.000001", "0.000001", "0.000001"),
            ("0.0000001", "1E-7", "0.0000001"),
            ("1e-7", "1E-7", "0.0000001"),
            ("0.0000000", "0E-7", "0.0000000"),
            ("0.00000015", "1.5E-7", "0.00000015"),
            ("3", "3", "3"),
            ("1e2", "100", "100"),
        ] {
            assert_eq!(decimal(given).to_string(), shown, "{given}");
            assert_eq!(decimal(given).fixed(), fixed, "{given}");
        }
    }

    #[test]
    fn amounts_are_rounded_half_up_to_seven_places() {
        for (price, unit, tokens, amount) in [
            ("0.15", "0.000001", 10, "0.0000015"),
            ("0.05", "0.000001", 1, "1E-7"),
            ("0.04", "0.000001", 1, "0E-7"),
            ("0.15", "0.000001", 1, "2E-7"),
            ("2.5", "0.000001", 0, "0E-7"),
            ("0.5", "1", 1, "0.5000000"),
            ("10", "0.001", u64::MAX, "184467440737095516.1500000"),
        ] {
            assert_eq!(decimal(price).amount(decimal(unit), tokens).to_string(), amount, "{price}*{tokens}");
        }
    }

    #[test]
    fn sums_take_the_larger_scale() {
        assert_eq!(decimal("0.5").plus(decimal("0.25")).to_string(), "0.75");
        assert_eq!(Decimal::UNPRICED.plus(Decimal::UNPRICED).to_string(), "0.0");
    }

    #[test]
    fn an_invalid_price_is_refused() {
        for text in ["", "-1", "abc", "1.2.3", "1e99", ".", "12345678901234567"] {
            assert!(text.parse::<Decimal>().is_err(), "{text}");
        }
    }
}

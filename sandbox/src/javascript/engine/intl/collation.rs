//! Compares texts in the order of a language. Only the data of `icu_collator` is taken: its own way to find the data needs two
//! more crates for the fallback between locales, and here a locale has its table or the root's.

use std::cmp::Ordering;
use std::collections::HashMap;

use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, Strength};
use icu_collator::{Collator, CollatorPreferences};
use icu_locale_core::Locale;
use icu_normalizer::provider::{NormalizerNfdDataV1, NormalizerNfdTablesV1};
use icu_provider::{DataError, DataProvider, DataRequest, DataResponse};

/// The data of the collator, in the program.
struct Tables;

const _: () = {
    use icu_collator_data::*;
    /// The names that the macros of the data expect.
    mod icu {
        pub(super) use icu_collator as collator;
        pub(super) use icu_collections as collections;
    }
    use super::fallback as icu_locale_fallback;
    make_provider!(Tables);
    impl_collation_root_v1!(Tables);
    impl_collation_tailoring_v1!(Tables);
    impl_collation_diacritics_v1!(Tables);
    impl_collation_jamo_v1!(Tables);
    impl_collation_metadata_v1!(Tables);
    impl_collation_special_primaries_v1!(Tables);
    impl_collation_reordering_v1!(Tables);
};

impl DataProvider<NormalizerNfdDataV1> for Tables {
    fn load(&self, request: DataRequest<'_>) -> Result<DataResponse<NormalizerNfdDataV1>, DataError> {
        icu_normalizer::provider::Baked.load(request)
    }
}

impl DataProvider<NormalizerNfdTablesV1> for Tables {
    fn load(&self, request: DataRequest<'_>) -> Result<DataResponse<NormalizerNfdTablesV1>, DataError> {
        icu_normalizer::provider::Baked.load(request)
    }
}

/// The collators that a program has used so far.
#[derive(Debug, Default)]
pub(super) struct Collators(HashMap<String, Collator>);

impl Collators {
    /// Compares two texts. `rules` is a language with `-u-` keywords for numbers and case, then `/`, the sensitivity, `/`, and
    /// `true` if punctuation is ignored: `de-u-kn/variant/false`.
    pub(super) fn compare(&mut self, rules: &str, left: &str, right: &str) -> Result<i32, String> {
        if !self.0.contains_key(rules) {
            self.0.insert(rules.to_owned(), collator(rules)?);
        }
        let found = self.0.get(rules).ok_or("no collator")?;
        Ok(match found.as_borrowed().compare(left, right) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        })
    }
}

fn collator(rules: &str) -> Result<Collator, String> {
    let mut parts = rules.split('/');
    let (locale, sensitivity, ignored) = (parts.next(), parts.next(), parts.next());
    let locale: Locale = locale.unwrap_or_default().parse().map_err(|error| format!("a locale: {error}"))?;
    let mut options = CollatorOptions::default();
    options.strength = Some(match sensitivity {
        Some("base" | "case") => Strength::Primary,
        Some("accent") => Strength::Secondary,
        _ => Strength::Tertiary,
    });
    options.case_level = (sensitivity == Some("case")).then_some(CaseLevel::On);
    options.alternate_handling = (ignored == Some("true")).then_some(AlternateHandling::Shifted);
    Collator::try_new_unstable(&Tables, CollatorPreferences::from(&locale), options)
        .map_err(|error| format!("the data of the collator: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For `han.mjs`, which compares this order with that of Node.js.
    #[test]
    #[ignore = "prints a table"]
    #[allow(clippy::print_stdout)]
    fn order_of_han() {
        for (language, data) in [("en", "en"), ("zh", "und-Hans"), ("ja", "ja"), ("ko", "ko")] {
            let collator = collator(&format!("{data}/variant/false")).expect("the data is in the program");
            let mut all: Vec<String> = ('\u{4e00}'..='\u{9fff}').map(String::from).collect();
            all.sort_by(|left, right| collator.as_borrowed().compare(left, right));
            println!("{language} {}", all.concat());
        }
    }
}

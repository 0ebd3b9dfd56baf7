//! Where data for a locale is searched: at its language, then at the root. It has the shape that the macros of
//! `icu_collator_data` expect of the crate `icu_locale_fallback`, which knows all locales.

use icu_provider::DataLocale;
use icu_provider::fallback::LocaleFallbackConfig;

pub(super) struct LocaleFallbacker;

impl LocaleFallbacker {
    pub(super) const fn new() -> Self {
        Self
    }

    pub(super) const fn for_config(self, _: LocaleFallbackConfig) -> LocaleFallbackerWithConfig<'static> {
        LocaleFallbackerWithConfig(std::marker::PhantomData)
    }
}

pub(super) struct LocaleFallbackerWithConfig<'a>(std::marker::PhantomData<&'a ()>);

impl LocaleFallbackerWithConfig<'_> {
    pub(super) fn fallback_for(&self, locale: DataLocale) -> Steps {
        Steps(locale)
    }
}

pub(super) struct Steps(DataLocale);

impl Steps {
    pub(super) fn get(&self) -> &DataLocale {
        &self.0
    }

    pub(super) fn take(self) -> DataLocale {
        self.0
    }

    pub(super) fn step(&mut self) {
        self.0 = DataLocale::default();
    }
}

//! App features beside the workflow that need a model: suggested questions and speech. Workers do the work, in runs of
//! built-in files ([`crate::submit::inner`]).

pub(crate) mod speech;
pub(crate) mod suggested;

/// Dify's name of what a node reports when its model has no API for speech.
pub(crate) const NO_SPEECH: &str = tidemill_common::nodes::speech::LACKS_SPEECH;

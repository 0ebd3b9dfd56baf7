//! What is drawn and done beyond the plain graph.

/// Switches of the generator and the world. Each is on as soon as the machine can do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// Iterations and loops.
    pub containers: bool,
    /// Containers in containers.
    pub nested: bool,
    /// Human-input forms.
    pub forms: bool,
    /// Pause and resume commands.
    pub pauses: bool,
    /// Stop commands.
    pub stops: bool,
}

impl Features {
    /// All of it.
    pub const ALL: Self = Self { containers: true, nested: true, forms: true, pauses: true, stops: true };
    /// Graphs without bodies and people: what is under way is mostly jobs and their texts.
    pub const PLAIN: Self =
        Self { containers: false, nested: false, forms: false, pauses: false, stops: true };
}

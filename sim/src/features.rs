//! Switches for the features of workflows and people that a story can have.

/// Features of the generator and the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// Iterations and loops.
    pub containers: bool,
    /// Containers inside containers.
    pub nested: bool,
    /// Human-input forms.
    pub forms: bool,
    /// Pause and resume commands.
    pub pauses: bool,
    /// Stop commands.
    pub stops: bool,
    /// Fail-overs of Redis, and slots that move.
    pub failovers: bool,
}

impl Features {
    /// All features.
    pub const ALL: Self =
        Self { containers: true, nested: true, forms: true, pauses: true, stops: true, failovers: true };
    /// Graphs without containers and people: mostly jobs and their texts are in flight.
    pub const PLAIN: Self =
        Self { containers: false, nested: false, forms: false, pauses: false, stops: true, failovers: false };
}

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
    /// Stop commands.
    pub stops: bool,
}

impl Features {
    /// What the machine can do.
    pub const NOW: Self = Self {
        // Waits for the machine's containers.
        containers: true,
        // Waits for the same.
        nested: true,
        // Waits for the machine's pauses, and for the store's `pauses` and `answer_pause`, by which the world answers.
        forms: false,
        stops: true,
    };
}

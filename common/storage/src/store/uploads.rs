//! The sizes of uploads, counted for the quotas of apps and users.

/// An upload that asks for its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadCharge {
    /// The app whose runs may use it.
    pub app: String,
    /// Its user.
    pub user: String,
    /// The day of the upload, as in its id.
    pub day: String,
    /// Uploads of earlier days are gone; empty: all are kept.
    pub first_day: String,
    /// Its size.
    pub bytes: u64,
    /// Most bytes of the app; 0: no limit.
    pub app_max: u64,
    /// Most bytes of the user; 0: no limit.
    pub user_max: u64,
    /// Seconds for which the count is needed; 0: always.
    pub keep_seconds: u64,
}

/// The answer to an [`UploadCharge`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadCharged {
    /// It is counted.
    Taken,
    /// The app would have more than its quota. Nothing is counted.
    AppFull {
        /// What it has now, in bytes.
        used: u64,
    },
    /// The user would have more than the quota. Nothing is counted.
    UserFull {
        /// What the user has now, in bytes.
        used: u64,
    },
}

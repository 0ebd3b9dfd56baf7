//! What the host of a run says about itself and its user, in the words of Dify's engine. A run has it as system variables
//! and as fields of its hash, so that people and programs find the runs of a tenant or of a surface.

/// A value of the host, by its name.
pub type HostField = (&'static str, String);

/// The name of the host's user, who is the run's user unless the request names another.
pub const USER_ID: &str = "user_id";

/// The names of the values.
pub const NAMES: [&str; 6] = ["tenant_id", "app_id", "workflow_id", USER_ID, "user_from", "invoke_from"];

/// Limits in the words of that engine, and the options of a run that they are.
pub const LIMITS: [(&str, &str); 4] = [
    ("max_steps", "max_steps"),
    ("max_execution_steps", "max_steps"),
    ("max_execution_time", "max_execution_time_s"),
    ("max_execution_time_s", "max_execution_time_s"),
];

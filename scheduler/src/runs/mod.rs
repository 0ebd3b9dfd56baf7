//! Runs as people and clients read them: [`record`] and [`render`] read a run, [`pauses`] and [`forms`] what it waits
//! for, [`waiting`] the queues that its nodes wait in, [`projection`] its events in Dify's form.

pub mod end_user;
pub mod forms;
pub mod pauses;
pub mod projection;
pub mod record;
pub mod render;
pub mod waiting;

//! The events with the sound of an answer, for apps that play their answers. They come after all other events of a run.

use serde_json::{Value as Json, json};

use super::Projection;

impl Projection {
    /// A piece of the sound, in base64.
    pub fn tts_message(&self, audio: &str) -> Json {
        self.sound("tts_message", audio)
    }

    /// The end of the sound.
    pub fn tts_message_end(&self) -> Json {
        self.sound("tts_message_end", "")
    }

    fn sound(&self, event: &str, audio: &str) -> Json {
        match &self.run.chat {
            Some(chat) => self.of_message(chat, event, json!({ "audio": audio })),
            None => json!({
                "event": event,
                "workflow_run_id": self.run.id,
                "task_id": self.run.id,
                "audio": audio,
            }),
        }
    }
}

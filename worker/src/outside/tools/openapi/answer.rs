//! Converts an answer to messages: JSON objects, texts, files.

use serde_json::Value as Json;
use tidemill_common::nodes::http_request::response::Class;
use tidemill_common::nodes::tool::Message;

use crate::outside::http::read::{Largest, ReadError, kind_of, read};
use crate::outside::http::{Answer, Bounds};
use crate::outside::tools::openapi::document::Operation;
use crate::outside::tools::{Stage, ToolError};

const EMPTY: &str = "Empty response from the tool, please check your parameters and try again.";

pub(super) async fn messages(
    mut answer: Answer,
    operation: &Operation,
    bounds: &Bounds,
) -> Result<Vec<Message>, ToolError> {
    let status = answer.response.status().as_u16();
    let kind = kind_of(answer.response.headers());
    let largest = Largest { text: bounds.text_bytes_max, file: bounds.file_bytes_max };
    let (class, bytes) = read(&mut answer, largest).await.map_err(|error| match error {
        ReadError::TooLarge { max, size, .. } => {
            let size = size.map_or_else(|| format!("more than {max}"), |size| size.to_string());
            let message = format!("Response size {size} exceeds the maximum allowed size {max} bytes");
            ToolError::new(Stage::Tool, message)
        }
        ReadError::Call(error) => ToolError::new(Stage::Tool, error.to_string()).passing(),
    })?;
    if status >= 400 {
        let body = String::from_utf8_lossy(&bytes);
        let message = format!("Request failed with status code {status} and {body}");
        return Err(ToolError::new(Stage::Tool, message).by_status(status));
    }
    if bytes.is_empty() {
        return Ok(vec![Message::Text(EMPTY.into())]);
    }
    if class == Class::File {
        let mime_type = Some(kind.file_type(&operation.url));
        let filename = kind.filename();
        return Ok(vec![Message::Blob { bytes, tool_file_id: None, mime_type, filename }]);
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(match serde_json::from_str::<Json>(&text) {
        Ok(object @ Json::Object(_)) => vec![Message::Json(object), Message::Text(text)],
        Ok(_) | Err(_) => vec![Message::Text(text)],
    })
}

//! Tests of documents that need a separate process, with real helpers.

use std::io::Write;

use tidemill_common::config::{CodeConfig, DocumentsConfig};
use tidemill_common::nodes::document_extractor::Format;
use tidemill_sandbox::documents::{DocumentError, DocumentReader};
use tidemill_sandbox::helper::Host;

fn reader(config: &DocumentsConfig) -> DocumentReader {
    let host = Host::at(env!("CARGO_BIN_EXE_tidemill-worker"));
    DocumentReader::new(config, &CodeConfig::default(), Some(host))
}

fn archive(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in parts {
        writer.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn odt(paragraphs: &str) -> Vec<u8> {
    archive(&[("content.xml", format!("<d><body><text>{paragraphs}</text></body></d>").as_bytes())])
}

#[tokio::test]
async fn documents_are_read_apart() {
    let reader = reader(&DocumentsConfig::default());
    assert_eq!(reader.read(Format::Odt, odt("<p>tide</p>")).await.as_deref(), Ok("tide"));
    let mail = b"From: a@example.org\r\nContent-Type: text/plain\r\n\r\nmill\r\n".to_vec();
    assert_eq!(reader.read(Format::Eml, mail).await.as_deref(), Ok("mill"));
    let broken = reader.read(Format::Docx, b"no archive".to_vec()).await;
    assert!(matches!(broken, Err(DocumentError::Document(_))), "{broken:?}");
    let broken = reader.read(Format::Pdf, b"%PDF-1.7 nothing of it".to_vec()).await;
    assert!(matches!(broken, Err(DocumentError::Document(_) | DocumentError::Parser(_))), "{broken:?}");
}

#[tokio::test]
async fn bounds_end_the_process_and_not_the_worker() {
    let small = DocumentsConfig { memory_bytes_max: 64 << 20, ..DocumentsConfig::default() };
    let bomb = archive(&[("content.xml", &vec![b' '; 40 << 20])]);
    let unpacked = reader(&small).read(Format::Odt, bomb).await;
    assert_eq!(unpacked, Err(DocumentError::Memory(64 << 20)));
    // It is within the limit on unpacked bytes, but its tree is many times larger.
    let tree = reader(&small).read(Format::Odt, odt(&"<a/>".repeat(3 << 20))).await;
    assert_eq!(tree, Err(DocumentError::Memory(64 << 20)));
    let hasty = DocumentsConfig { timeout_ms: 1, ..DocumentsConfig::default() };
    let long = odt(&"<p>x</p>".repeat(1 << 18));
    assert_eq!(reader(&hasty).read(Format::Odt, long).await, Err(DocumentError::Time(1)));
    let terse = DocumentsConfig { text_bytes_max: 3, ..DocumentsConfig::default() };
    let long = reader(&terse).read(Format::Odt, odt("<p>four</p>")).await;
    assert!(
        matches!(&long, Err(DocumentError::Document(reason)) if reason.contains("text_bytes_max")),
        "{long:?}"
    );
}

//! Tests with documents that the tests build themselves.

use std::io::{Cursor, Write};

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::*;

const LIMITS: Limits = Limits { unpacked_bytes: 1 << 20, text_bytes: 1 << 20 };

fn text(format: Format, bytes: impl AsRef<[u8]>) -> String {
    extract(format, bytes.as_ref(), LIMITS).unwrap_or_else(|error| panic!("{error}"))
}

fn archive(parts: &[(&str, &str)]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in parts {
        writer.start_file(*name, SimpleFileOptions::default()).expect("a part");
        writer.write_all(content.as_bytes()).expect("its content");
    }
    writer.finish().expect("an archive").into_inner()
}

#[test]
fn texts_are_read_in_any_charset() {
    for (bytes, expected) in [
        ("Ærø 日本".as_bytes(), "Ærø 日本"),
        (b"\xef\xbb\xbfmark", "mark"),
        (b"\xff\xfea\0b\0", "ab"),
        (b"caf\xe9 cr\xe8me", "café crème"),
        (b"\xc4\xe3\xba\xc3\xa3\xac\xca\xc0\xbd\xe7", "你好，世界"),
        (b"", ""),
    ] {
        assert_eq!(text(Format::Text, bytes), expected);
    }
}

#[test]
fn json_tables_and_properties_are_formatted_again() {
    assert_eq!(
        text(Format::Json, r#"{"b":1,"a":["é",null]}"#),
        "{\n  \"b\": 1,\n  \"a\": [\n    \"é\",\n    null\n  ]\n}"
    );
    assert!(matches!(extract(Format::Json, b"{oops", LIMITS), Err(ExtractError::Broken(_))));
    for (source, expected) in [
        (
            "name,qty\n\"multi\nline\",2\nbolt,\"1,5\"\n",
            "| name | qty |\n| ---- | --- |\n| multi line | 2 |\n| bolt | 1,5 |\n",
        ),
        ("å\r\n1,2,3\r\n", "| å |\n| - |\n| 1 | 2 | 3 |\n"),
        ("", ""),
        ("a,b\n1,2\n\n", "| a | b |\n| - | - |\n| 1 | 2 |\n|  |\n"),
        ("\r\na\r\n\r\nb\r\n", "|  |\n|  |\n| a |\n|  |\n| b |\n"),
        ("a,\"x\n\n\"\"y\"\n\n\"\"\n", "| a | x  \"y |\n| - | ----- |\n|  |\n|  |\n"),
    ] {
        assert_eq!(text(Format::Csv, source), expected);
    }
    assert_eq!(
        text(Format::Properties, "# c\nkey=value\nother : x=y\nlonely\r\n! x\na:b:c\n\n"),
        "# c\nkey: value\nother : x: y\nlonely: \n! x\na: b:c\n"
    );
}

#[test]
fn yaml_is_written_as_pyyaml_writes_it() {
    for (source, expected) in [
        ("b: 1\na: [x, 'yé']\n", "b: 1\na:\n- x\n- yé\n"),
        (
            "a: {}\nb: []\nc: ''\nd: ~\ne: yes\nf: 'yes'\n",
            "a: {}\nb: []\nc: ''\nd: null\ne: true\nf: 'yes'\n",
        ),
        ("- [1, 2]\n- {a: 1, b: {c: 2}}\n", "- - 1\n  - 2\n- a: 1\n  b:\n    c: 2\n"),
        ("a: 1\n---\nb: 2\n", "a: 1\n---\nb: 2\n"),
        ("word\n", "word\n...\n"),
        ("'1'\n", "'1'\n"),
        (
            "d: 2024-01-31\ns: '2024-01-31'\nf: 1.0\nx: 1.e+20\n",
            "d: 2024-01-31\ns: '2024-01-31'\nf: 1.0\nx: 1.0e+20\n",
        ),
        ("a: 'b: c'\nd: '#e'\nf: \"tab\\t\"\n", "a: 'b: c'\nd: '#e'\nf: \"tab\\t\"\n"),
        ("a: |\n  x\n  y\n", "a: 'x\n\n  y\n\n  '\n"),
        ("base: &b {x: 1, y: 2}\nown: {<<: *b, y: 3}\n", "base:\n  x: 1\n  y: 2\nown:\n  x: 1\n  y: 3\n"),
    ] {
        assert_eq!(text(Format::Yaml, source), expected, "{source}");
    }
    let long = format!("a: {}\n", ["word"; 30].join(" "));
    assert_eq!(text(Format::Yaml, &long).lines().map(str::len).collect::<Vec<_>>(), [82, 71]);
    for source in ["a: [", "a: !thing x", "a: *nowhere"] {
        assert!(
            matches!(extract(Format::Yaml, source.as_bytes(), LIMITS), Err(ExtractError::Broken(_))),
            "{source}"
        );
    }
    let bomb: String =
        (1..12).map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(", "))).collect();
    let error = extract(Format::Yaml, format!("a0: &a0 x\n{bomb}").as_bytes(), LIMITS).expect_err("a bomb");
    assert!(error.to_string().contains("values"), "{error}");
}

#[test]
fn subtitles_are_lines_per_speaker_and_a_cue_without_a_speaker_repeats() {
    let cues = |cues: &[&str]| {
        let cues: Vec<String> =
            cues.iter().map(|words| format!("00:01.000 --> 00:02.000\n{words}\n")).collect();
        text(Format::Vtt, format!("WEBVTT\n\n{}", cues.join("\n")))
    };
    assert_eq!(cues(&["<v Ann>One", "<v Ann>two</v>", "<v Bo>Three"]), "Ann \"One two\"\nBo \"Three\"");
    assert_eq!(cues(&["no name"]), " \"no name\"");
    assert_eq!(cues(&["<v Ann>One", "lost"]), "Ann \"One\"\nAnn \"One\"");
    assert_eq!(text(Format::Vtt, "WEBVTT\n"), "");
}

#[test]
fn word_keeps_the_order_of_paragraphs_and_tables() {
    let cell = |properties: &str, text: &str| {
        format!("<w:tc><w:tcPr>{properties}</w:tcPr><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>")
    };
    let document = format!(
        "<?xml version=\"1.0\"?><w:document xmlns:w=\"w\"><w:body>\
         <w:p><w:r><w:t>One &amp; </w:t><w:tab/></w:r><w:hyperlink><w:r><w:t>link</w:t></w:r></w:hyperlink>\
         <w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>\
         <w:tbl><w:tr>{}{}</w:tr><w:tr>{}{}</w:tr><w:tr>{}</w:tr></w:tbl>\
         <w:tbl><w:tr>{}</w:tr></w:tbl><w:p><w:r><w:t>End</w:t><w:br/></w:r></w:p></w:body></w:document>",
        cell("<w:vMerge w:val=\"restart\"/>", "a"),
        cell("", "b</w:t><w:br/><w:t>c"),
        cell("<w:vMerge/>", ""),
        cell("", "d"),
        cell("<w:gridSpan w:val=\"2\"/>", "wide"),
        cell("", " "),
    );
    for name in ["word/document.xml", "word\\document.xml"] {
        assert_eq!(
            text(Format::Docx, archive(&[(name, &document)])),
            "One & \tlink\n| a | b<br>c |\n| --- | --- |\n| a | d |\n| wide | wide |\n\nEnd\n"
        );
    }
}

#[test]
fn slides_come_in_the_order_of_the_presentation() {
    let slide = |text: &str| {
        format!(
            "<p:sld xmlns:p=\"p\" xmlns:a=\"a\"><p:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p><a:p/></p:txBody></p:sld>"
        )
    };
    let package = archive(&[
        (
            "ppt/presentation.xml",
            "<p:presentation xmlns:p=\"p\" xmlns:r=\"r\"><p:sldIdLst><p:sldId id=\"256\" r:id=\"r2\"/>\
             <p:sldId id=\"257\" r:id=\"r1\"/></p:sldIdLst></p:presentation>",
        ),
        (
            "ppt/_rels/presentation.xml.rels",
            "<Relationships><Relationship Id=\"r1\" Target=\"slides/slide1.xml\"/>\
             <Relationship Id=\"r2\" Target=\"/ppt/slides/slide2.xml\"/></Relationships>",
        ),
        ("ppt/slides/slide1.xml", &slide("first file")),
        ("ppt/slides/slide2.xml", &slide("second file")),
    ]);
    assert_eq!(text(Format::Pptx, package), "second file\nfirst file");
}

#[test]
fn books_are_read_in_the_order_of_their_spine_and_odt_keeps_its_spaces() {
    let book = archive(&[
        (
            "META-INF/container.xml",
            "<container><rootfiles><rootfile full-path=\"OEBPS/b.opf\"/></rootfiles></container>",
        ),
        (
            "OEBPS/b.opf",
            "<package><manifest><item id=\"a\" href=\"a%20b.xhtml\"/><item id=\"c\" href=\"c.xhtml\"/></manifest>\
             <spine><itemref idref=\"c\"/><itemref idref=\"a\"/></spine></package>",
        ),
        ("OEBPS/a b.xhtml", "<html><head><title>no</title></head><body><p>second &hellip;</p></body></html>"),
        (
            "OEBPS/c.xhtml",
            "<html><body><h1>First</h1><p>and\n  <b>bold</b></p><script>no()</script></body></html>",
        ),
    ]);
    assert_eq!(text(Format::Epub, book), "First\nand bold\nsecond …");
    let odt = archive(&[(
        "content.xml",
        "<o:doc xmlns:o=\"o\" xmlns:text=\"t\"><o:body><o:text><text:h>Head</text:h>\
         <text:p>a<text:s text:c=\"2\"/>b<text:tab/>c <text:span>d</text:span></text:p></o:text></o:body></o:doc>",
    )]);
    assert_eq!(text(Format::Odt, odt), "Head\na  b\tc d");
}

#[test]
fn sheets_are_tables_as_pandas_shows_them() {
    let sheet = "<worksheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\"><sheetData>\
        <row r=\"1\"><c r=\"A1\" t=\"inlineStr\"><is><t>name</t></is></c><c r=\"B1\" t=\"inlineStr\"><is><t>qty</t></is></c></row>\
        <row r=\"2\"><c r=\"A2\" t=\"inlineStr\"><is><t>bolt</t></is></c><c r=\"B2\"><v>1</v></c><c r=\"C2\"><v>7</v></c></row>\
        <row r=\"4\"><c r=\"A4\" t=\"inlineStr\"><is><t>nut</t></is></c><c r=\"C4\"><v>2.5</v></c></row>\
        </sheetData></worksheet>";
    let book = archive(&[
        (
            "[Content_Types].xml",
            "<Types xmlns=\"http://schemas.openxmlformats.org/package/2006/content-types\"/>",
        ),
        (
            "_rels/.rels",
            "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\"><Relationship Id=\"r1\" \
             Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument\" \
             Target=\"xl/workbook.xml\"/></Relationships>",
        ),
        (
            "xl/workbook.xml",
            "<workbook xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\" \
             xmlns:r=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships\"><sheets>\
             <sheet name=\"S\" sheetId=\"1\" r:id=\"r1\"/></sheets></workbook>",
        ),
        (
            "xl/_rels/workbook.xml.rels",
            "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\"><Relationship Id=\"r1\" \
             Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet\" \
             Target=\"worksheets/sheet1.xml\"/></Relationships>",
        ),
        ("xl/worksheets/sheet1.xml", sheet),
    ]);
    assert_eq!(
        text(Format::Excel, book),
        "| name | qty | Unnamed: 2 |\n| ---- | --- | ---------- |\n| bolt | 1.0 | 7.0 |\n| nut | nan | 2.5 |\n\n"
    );
}

#[test]
fn sheets_of_the_old_binary_format_give_the_same_tables() {
    let book = include_bytes!("samples/table.xls");
    assert_eq!(
        text(Format::Excel, book),
        "| name | qty | price | day |\n| ---- | --- | ----- | --- |\n\
         | bolt | 2.0 | 1.5 | 2024-01-31 00:00:00 |\n| nüt | nan | 3.0 | NaT |\n\n\
         | a | b |\n| - | - |\n| 1 | 2 |\n| 3 | 4 |\n\n"
    );
}

#[test]
fn mails_give_the_text_of_their_body() {
    let head = "From: a@example.org\r\nSubject: Hello\r\nMIME-Version: 1.0\r\n";
    let plain =
        format!("{head}Content-Type: text/plain; charset=utf-8\r\n\r\nDear Bo,\r\n\r\n  see you.\r\n");
    assert_eq!(text(Format::Eml, plain), "Dear Bo,\nsee you.");
    let html = format!(
        "{head}Content-Type: text/html; charset=utf-8\r\n\r\n<p>Dear&nbsp;Bo,</p><p>see <b>you</b>.</p>"
    );
    assert_eq!(text(Format::Eml, html), "Dear\u{a0}Bo,\nsee you.");
}

/// Builds a PDF with one page that shows one line of text.
fn pdf(line: &str) -> String {
    let stream = format!("BT /F1 24 Tf 72 700 Td ({line}) Tj ET");
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>".to_owned(),
        format!("<< /Length {} >>\nstream\n{stream}\nendstream", stream.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned(),
    ];
    let (mut out, mut places) = ("%PDF-1.4\n".to_owned(), Vec::new());
    for (at, object) in objects.iter().enumerate() {
        places.push(out.len());
        out.push_str(&format!("{} 0 obj\n{object}\nendobj\n", at + 1));
    }
    let table = out.len();
    out.push_str("xref\n0 6\n0000000000 65535 f \n");
    places.iter().for_each(|place| out.push_str(&format!("{place:010} 00000 n \n")));
    out.push_str(&format!("trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n"));
    out
}

#[test]
fn the_text_of_a_pdf_is_extracted() {
    assert_eq!(text(Format::Pdf, pdf("Hello from a page")).trim(), "Hello from a page");
    assert!(extract(Format::Pdf, b"%PDF-1.4 broken", LIMITS).is_err());
}

#[test]
fn damaged_or_too_large_documents_are_errors() {
    for format in [Format::Docx, Format::Excel, Format::Pptx, Format::Epub, Format::Odt] {
        for bytes in [&b"PK no archive"[..], b"", &archive(&[("other", "x")])] {
            assert!(matches!(extract(format, bytes, LIMITS), Err(ExtractError::Broken(_))), "{format:?}");
        }
    }
    let zeros = "0".repeat(2 << 20);
    let bomb =
        archive(&[("word/document.xml", &zeros), ("content.xml", &zeros), ("xl/workbook.xml", &zeros)]);
    for format in [Format::Docx, Format::Odt, Format::Excel] {
        assert_eq!(extract(format, &bomb, LIMITS), Err(ExtractError::Unpacked(1 << 20)), "{format:?}");
    }
    let deep = archive(&[("content.xml", &"<a>".repeat(5_000))]);
    assert!(extract(Format::Odt, &deep, LIMITS).expect_err("too deep").to_string().contains("nested"));
    assert_eq!(extract(Format::Text, zeros.as_bytes(), LIMITS), Err(ExtractError::Text(1 << 20)));
    assert!(matches!(extract(Format::Msg, b"", LIMITS), Err(ExtractError::Foreign("msg"))));
}

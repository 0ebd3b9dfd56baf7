use super::*;

/// What a request says, what a server says, and the URL.
fn facts(given: (&str, &str), said: (&str, &str), url: &str) -> FileFacts {
    fn some(text: &str) -> Option<&str> {
        Some(text).filter(|text| !text.is_empty())
    }
    FileFacts::of(Known {
        given_name: some(given.0),
        given_type: some(given.1),
        said_name: some(said.0),
        said_type: some(said.1),
        url,
        last_url: None,
    })
}

#[test]
fn a_file_is_what_the_request_the_server_and_the_url_say_in_this_order() {
    const NONE: (&str, &str) = ("", "");
    const DOCX: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";
    for (given, said, url, name, extension, mime_type, kind) in [
        (NONE, NONE, "http://h/a/cat.PNG?x=1", "cat.PNG", ".png", "image/png", "image"),
        (NONE, NONE, "http://h/%E6%B8%AF.txt", "港.txt", ".txt", "text/plain", "document"),
        (NONE, NONE, "http://h/a", "a", ".bin", UNKNOWN_TYPE, ""),
        (NONE, NONE, "http://h/a.unheard", "a.unheard", ".unheard", UNKNOWN_TYPE, ""),
        (NONE, NONE, "http://h/a.epub", "a.epub", ".epub", "application/epub+zip", "document"),
        // The server.
        (NONE, ("", "text/plain; charset=x"), "http://h/a", "a", ".txt", "text/plain", "document"),
        (NONE, ("note.txt", ""), "http://h/a", "note.txt", ".txt", "text/plain", "document"),
        (
            NONE,
            ("note.txt", "application/octet-stream"),
            "http://h/a.bin",
            "note.txt",
            ".txt",
            "text/plain",
            "document",
        ),
        (NONE, ("r.docx", "application/zip"), "http://h/a", "r.docx", ".docx", "application/zip", "document"),
        (NONE, ("", DOCX), "http://h/a", "a", ".docx", DOCX, "document"),
        (NONE, ("report", "application/pdf"), "http://h/a", "report", ".pdf", "application/pdf", "document"),
        (NONE, ("", "binary/octet-stream"), "http://h/a.pdf", "a.pdf", ".pdf", "application/pdf", "document"),
        (NONE, ("", "text/plain"), "http://h/a.md", "a.md", ".md", "text/plain", "document"),
        (
            NONE,
            ("", "application/pdf"),
            "http://h/get.php?id=1",
            "get.php",
            ".pdf",
            "application/pdf",
            "document",
        ),
        (NONE, ("", "text/plain"), "http://h/get.php", "get.php", ".txt", "text/plain", "document"),
        (NONE, ("", "text/plain"), "http://h/main.rs", "main.rs", ".rs", "text/plain", "document"),
        (NONE, ("", "text/html"), "http://h/cat.png", "cat.png", ".html", "text/html", "document"),
        (NONE, ("", "image/jpeg"), "http://h/cat.png", "cat.png", ".png", "image/jpeg", "image"),
        (
            NONE,
            ("", "application/x-unheard"),
            "http://h/a.pdf",
            "a.pdf",
            ".pdf",
            "application/x-unheard",
            "document",
        ),
        (NONE, ("", "nonsense"), "http://h/a.pdf", "a.pdf", ".pdf", "application/pdf", "document"),
        (NONE, NONE, "http://h/a.yaml", "a.yaml", ".yaml", UNKNOWN_TYPE, ""),
        (NONE, ("", "application/zip"), "http://h/a", "a", ".zip", "application/zip", "custom"),
        // The request.
        (("", "text/plain"), NONE, "http://h/a", "a", ".txt", "text/plain", "document"),
        (
            ("", "text/plain"),
            ("", "application/pdf"),
            "http://h/a.bin",
            "a.bin",
            ".txt",
            "text/plain",
            "document",
        ),
        (("b.csv", ""), ("note.txt", ""), "http://h/a", "b.csv", ".csv", "text/csv", "document"),
        (("b.csv", "text/csv"), ("", "image/png"), "http://h/a", "b.csv", ".csv", "text/csv", "document"),
        (("../b.csv", ""), NONE, "http://h/a", "b.csv", ".csv", "text/csv", "document"),
    ] {
        let found = facts(given, said, url);
        let expected = FileFacts {
            name: Some(name.into()),
            extension: extension.into(),
            mime_type: mime_type.into(),
            kind: Some(kind).filter(|kind| !kind.is_empty()),
        };
        assert_eq!(found, expected, "{given:?} {said:?} {url}");
    }
    for url in ["http://h", "http://h/", "http://h/a/", "http://h/?a.txt", "http://h/.."] {
        assert_eq!(facts(NONE, NONE, url).name, None, "{url}");
    }
}

#[test]
fn the_end_of_a_redirect_gives_the_name_only_if_the_beginning_has_no_extension() {
    for (url, last, name) in [
        ("http://h/latest", "http://h/files/v1.zip?k=1", "v1.zip"),
        ("http://h/a.txt", "http://h/files/v1.zip", "a.txt"),
        ("http://h/latest", "http://h/files/0af3", "latest"),
        ("http://h/", "http://h/files/0af3", "0af3"),
    ] {
        let known = Known { url, last_url: Some(last), ..Known::default() };
        assert_eq!(FileFacts::of(known).name.as_deref(), Some(name), "{url} {last}");
    }
}

#[test]
fn names_are_cleaned_and_bounded() {
    let long = format!("{}.docx", "港".repeat(400));
    let cut = clean(&long).unwrap();
    assert_eq!((cut.chars().count(), cut.ends_with("港.docx")), (FILE_NAME_CHARS_MAX, true));
    let endless = "x".repeat(300);
    assert_eq!(clean(&endless).map(|name| name.len()), Some(FILE_NAME_CHARS_MAX));
    for (name, cleaned) in [
        ("  a.txt\r\n", Some("a.txt")),
        ("a/b\\c.txt", Some("c.txt")),
        ("a\u{0}b\u{7f}.txt", Some("ab.txt")),
        (".htaccess", Some(".htaccess")),
        ("a/", None),
        (" . ", None),
        ("", None),
    ] {
        assert_eq!(clean(name).as_deref(), cleaned, "{name:?}");
    }
    assert_eq!(
        [".htaccess", "a.", "a.b c", "a.tar.gz"].map(extension),
        [None, None, None, Some("gz")],
        "an extension is a word after a name"
    );
}

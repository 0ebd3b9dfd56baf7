//! The table of media types by file extension of Python's standard library. Dify asks that library, and
//! decides in other ways what it does not know.

/// Extension without its dot, media type.
const TYPES: &[(&str, &str)] = &[
    ("3g2", "audio/3gpp2"),
    ("3gp", "audio/3gpp"),
    ("3gpp", "audio/3gpp"),
    ("3gpp2", "audio/3gpp2"),
    ("a", "application/octet-stream"),
    ("aac", "audio/aac"),
    ("adts", "audio/aac"),
    ("ai", "application/postscript"),
    ("aif", "audio/x-aiff"),
    ("aifc", "audio/x-aiff"),
    ("aiff", "audio/x-aiff"),
    ("ass", "audio/aac"),
    ("au", "audio/basic"),
    ("avi", "video/x-msvideo"),
    ("avif", "image/avif"),
    ("bat", "text/plain"),
    ("bcpio", "application/x-bcpio"),
    ("bin", "application/octet-stream"),
    ("bmp", "image/bmp"),
    ("c", "text/plain"),
    ("cdf", "application/x-netcdf"),
    ("cpio", "application/x-cpio"),
    ("csh", "application/x-csh"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("dll", "application/octet-stream"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("dot", "application/msword"),
    ("dvi", "application/x-dvi"),
    ("eml", "message/rfc822"),
    ("eps", "application/postscript"),
    ("etx", "text/x-setext"),
    ("exe", "application/octet-stream"),
    ("gif", "image/gif"),
    ("gtar", "application/x-gtar"),
    ("h", "text/plain"),
    ("h5", "application/x-hdf5"),
    ("hdf", "application/x-hdf"),
    ("heic", "image/heic"),
    ("heif", "image/heif"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ico", "image/vnd.microsoft.icon"),
    ("ief", "image/ief"),
    ("jpe", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "application/javascript"),
    ("json", "application/json"),
    ("ksh", "text/plain"),
    ("latex", "application/x-latex"),
    ("loas", "audio/aac"),
    ("m1v", "video/mpeg"),
    ("m3u", "application/vnd.apple.mpegurl"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("man", "application/x-troff-man"),
    ("markdown", "text/markdown"),
    ("md", "text/markdown"),
    ("me", "application/x-troff-me"),
    ("mht", "message/rfc822"),
    ("mhtml", "message/rfc822"),
    ("mif", "application/x-mif"),
    ("mjs", "application/javascript"),
    ("mov", "video/quicktime"),
    ("movie", "video/x-sgi-movie"),
    ("mp2", "audio/mpeg"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpa", "video/mpeg"),
    ("mpe", "video/mpeg"),
    ("mpeg", "video/mpeg"),
    ("mpg", "video/mpeg"),
    ("ms", "application/x-troff-ms"),
    ("n3", "text/n3"),
    ("nc", "application/x-netcdf"),
    ("nq", "application/n-quads"),
    ("nt", "application/n-triples"),
    ("nws", "message/rfc822"),
    ("o", "application/octet-stream"),
    ("obj", "application/octet-stream"),
    ("oda", "application/oda"),
    ("opus", "audio/opus"),
    ("p12", "application/x-pkcs12"),
    ("p7c", "application/pkcs7-mime"),
    ("pbm", "image/x-portable-bitmap"),
    ("pdf", "application/pdf"),
    ("pfx", "application/x-pkcs12"),
    ("pgm", "image/x-portable-graymap"),
    ("pl", "text/plain"),
    ("png", "image/png"),
    ("pnm", "image/x-portable-anymap"),
    ("pot", "application/vnd.ms-powerpoint"),
    ("ppa", "application/vnd.ms-powerpoint"),
    ("ppm", "image/x-portable-pixmap"),
    ("pps", "application/vnd.ms-powerpoint"),
    ("ppt", "application/vnd.ms-powerpoint"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("ps", "application/postscript"),
    ("pwz", "application/vnd.ms-powerpoint"),
    ("py", "text/x-python"),
    ("pyc", "application/x-python-code"),
    ("pyo", "application/x-python-code"),
    ("qt", "video/quicktime"),
    ("ra", "audio/x-pn-realaudio"),
    ("ram", "application/x-pn-realaudio"),
    ("ras", "image/x-cmu-raster"),
    ("rdf", "application/xml"),
    ("rgb", "image/x-rgb"),
    ("roff", "application/x-troff"),
    ("rst", "text/x-rst"),
    ("rtf", "application/rtf"),
    ("rtx", "text/richtext"),
    ("sgm", "text/x-sgml"),
    ("sgml", "text/x-sgml"),
    ("sh", "application/x-sh"),
    ("shar", "application/x-shar"),
    ("snd", "audio/basic"),
    ("so", "application/octet-stream"),
    ("src", "application/x-wais-source"),
    ("srt", "text/plain"),
    ("sv4cpio", "application/x-sv4cpio"),
    ("sv4crc", "application/x-sv4crc"),
    ("svg", "image/svg+xml"),
    ("swf", "application/x-shockwave-flash"),
    ("t", "application/x-troff"),
    ("tar", "application/x-tar"),
    ("tcl", "application/x-tcl"),
    ("tex", "application/x-tex"),
    ("texi", "application/x-texinfo"),
    ("texinfo", "application/x-texinfo"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("tr", "application/x-troff"),
    ("trig", "application/trig"),
    ("tsv", "text/tab-separated-values"),
    ("txt", "text/plain"),
    ("ustar", "application/x-ustar"),
    ("vcf", "text/x-vcard"),
    ("vtt", "text/vtt"),
    ("wasm", "application/wasm"),
    ("wav", "audio/x-wav"),
    ("weba", "audio/webm"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("wiz", "application/msword"),
    ("wsdl", "application/xml"),
    ("xbm", "image/x-xbitmap"),
    ("xlb", "application/vnd.ms-excel"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("xml", "text/xml"),
    ("xpdl", "application/xml"),
    ("xpm", "image/x-xpixmap"),
    ("xsl", "application/xml"),
    ("xwd", "image/x-xwindowdump"),
    ("zip", "application/zip"),
];

/// True when some extension has this media type. Expects lower case, without parameters.
pub fn is_known(media_type: &str) -> bool {
    TYPES.iter().any(|(_, known)| *known == media_type)
}

/// The usual extension for media types that have several, where the first in the table is not the usual one, and for
/// types that the table lacks.
const USUAL: [(&str, &str); 39] = [
    ("application/csv", "csv"),
    ("application/epub+zip", "epub"),
    ("application/gzip", "gz"),
    ("application/vnd.ms-excel", "xls"),
    ("application/vnd.ms-outlook", "msg"),
    ("application/vnd.ms-powerpoint", "ppt"),
    ("application/vnd.oasis.opendocument.text", "odt"),
    ("application/x-gzip", "gz"),
    ("application/x-javascript", "js"),
    ("application/x-pdf", "pdf"),
    ("application/x-yaml", "yaml"),
    ("application/x-zip-compressed", "zip"),
    ("application/xml", "xml"),
    ("application/yaml", "yaml"),
    ("audio/amr", "amr"),
    ("audio/flac", "flac"),
    ("audio/m4a", "m4a"),
    ("audio/mp3", "mp3"),
    ("audio/mp4", "m4a"),
    ("audio/mpeg", "mp3"),
    ("audio/ogg", "ogg"),
    ("audio/wav", "wav"),
    ("audio/wave", "wav"),
    ("audio/x-m4a", "m4a"),
    ("image/jpeg", "jpg"),
    ("image/jpg", "jpg"),
    ("image/x-icon", "ico"),
    ("message/rfc822", "eml"),
    ("text/html", "html"),
    ("text/javascript", "js"),
    ("text/markdown", "md"),
    ("text/plain", "txt"),
    ("text/x-markdown", "md"),
    ("text/x-yaml", "yaml"),
    ("text/yaml", "yaml"),
    ("video/mpeg", "mpeg"),
    ("video/ogg", "ogv"),
    ("video/x-m4v", "m4v"),
    ("video/x-matroska", "mkv"),
];

/// Media types that are missing in Python's table, which Dify uses first: extension, type.
const MORE: [(&str, &str); 6] = [
    ("amr", "audio/amr"),
    ("epub", "application/epub+zip"),
    ("m4a", "audio/mp4"),
    ("mpga", "audio/mpeg"),
    ("msg", "application/vnd.ms-outlook"),
    ("odt", "application/vnd.oasis.opendocument.text"),
];

/// The media type of files with an extension (without its dot), also for types that Python's table lacks.
pub fn of_extension(extension: &str) -> Option<&'static str> {
    let of = |table: &[(&str, &'static str)]| {
        let found = table.iter().find(|(known, _)| known.eq_ignore_ascii_case(extension));
        found.map(|(_, media_type)| *media_type)
    };
    of(TYPES).or_else(|| of(&MORE))
}

/// Returns the extension, without a dot, for files of a media type. Expects lower case, without parameters.
pub fn extension_of(media_type: &str) -> Option<&'static str> {
    let usual = USUAL.iter().find(|(of, _)| *of == media_type).map(|(_, extension)| *extension);
    // Files of an unknown type have many extensions in the table.
    if media_type == "application/octet-stream" {
        return None;
    }
    usual.or_else(|| TYPES.iter().find(|(_, of)| *of == media_type).map(|(extension, _)| *extension))
}

/// Returns the media type for the extension of a file name.
pub fn of_name(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit_once('.')?;
    TYPES.iter().find(|(known, _)| known.eq_ignore_ascii_case(extension)).map(|(_, media_type)| *media_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_types_are_looked_up_without_regard_to_case_of_names() {
        assert_eq!(of_name("a.b/Report.PDF"), Some("application/pdf"));
        assert_eq!((of_name("pdf"), of_name("x.unheard")), (None, None));
        assert!(is_known("image/png") && !is_known("application/x-foo"));
    }

    #[test]
    fn a_media_type_has_its_usual_extension() {
        for (media_type, extension) in [
            ("application/vnd.ms-excel", Some("xls")),
            ("application/vnd.ms-powerpoint", Some("ppt")),
            ("application/msword", Some("doc")),
            ("application/xml", Some("xml")),
            ("application/epub+zip", Some("epub")),
            ("text/markdown", Some("md")),
            ("image/png", Some("png")),
            ("application/octet-stream", None),
            ("application/x-foo", None),
        ] {
            assert_eq!(extension_of(media_type), extension, "{media_type}");
        }
        assert_eq!(
            [of_extension("EPUB"), of_extension("png"), of_extension("x")],
            [Some("application/epub+zip"), Some("image/png"), None,]
        );
    }
}

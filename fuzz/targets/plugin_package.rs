//! The package of a Dify plugin: the bytes of an archive, or texts that are packed first. In the second form the input begins with
//! a file: a line `=== name`, then its text until the next such line.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The files are included by path: the whole crate would take minutes to build, and these files do not need it.
#[path = "../../plugins/src/limits.rs"]
mod limits;
#[path = "../../plugins/src/package/mod.rs"]
#[allow(dead_code, unused_imports)]
mod package;

use limits::PackageLimits;
use package::Package;

const FILE: &str = "=== ";

/// Packs the texts; `None` for other input.
fn packed(bytes: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.starts_with(FILE))?;
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for line in text.split_inclusive('\n') {
        match line.strip_prefix(FILE) {
            Some(name) => {
                writer.start_file(name.trim_end(), zip::write::SimpleFileOptions::default()).ok()?
            }
            None => std::io::Write::write_all(&mut writer, line.as_bytes()).ok()?,
        }
    }
    Some(writer.finish().ok()?.into_inner())
}

fuzz_target!(|bytes: &[u8]| {
    let limits = PackageLimits { unpacked_bytes_max: 4 << 20, ..PackageLimits::default() };
    let made = packed(bytes);
    let Ok(package) = Package::read(made.as_deref().unwrap_or(bytes), &limits, None) else { return };
    assert!(package.problems.len() <= limits.problems_max);
    assert!(package.files.bytes() <= limits.unpacked_bytes_max);
    assert!(
        package.files.names().all(|name| !name.starts_with('/') && !name.split('/').any(|part| part == ".."))
    );
    // The id goes into errors and paths.
    let id = package.id();
    assert!(id.chars().all(|c| c.is_ascii_alphanumeric() || "/:._-+".contains(c)), "{id:?}");
    let again = package.files.packed().expect("its files can be packed");
    let again = Package::read(&again, &limits, None).expect("what was packed here can be read");
    assert_eq!((&again.hash, again.id()), (&package.hash, id), "it depends on how it was packed");
    assert_eq!(again.problems, package.problems, "so do its problems");
});

//! The lock file of an environment: which packages were asked for, and the exact version and hash of everything that
//! was chosen for them. It is also a file of requirements as pip reads them.

use serde::Deserialize;
use sha2::{Digest, Sha256};

const HEAD: &str = "# Made by `tidemill code install`: exact versions and hashes of code.python.packages. Keep it beside \
                    the settings, on each host of a worker.";
const PACKAGES: &str = "# packages: ";
const PYTHON: &str = "# python: ";

/// The content of a lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lock {
    /// `code.python.packages` at that time.
    pub(crate) packages: Vec<String>,
    /// The Python and the machine that it is for, such as `3.11 linux-x86_64`.
    pub(crate) python: String,
    pub(crate) pins: Vec<Pin>,
}

/// A chosen package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pin {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The hash of its file, in hexadecimal digits.
    pub(crate) sha256: String,
}

/// The part of pip's report that is used.
#[derive(Deserialize)]
struct Report {
    install: Vec<Chosen>,
}

#[derive(Deserialize)]
struct Chosen {
    metadata: Metadata,
    download_info: Download,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    version: String,
}

#[derive(Deserialize)]
struct Download {
    url: String,
    #[serde(default)]
    archive_info: Archive,
}

#[derive(Default, Deserialize)]
struct Archive {
    #[serde(default)]
    hash: String,
    #[serde(default)]
    hashes: Hashes,
}

#[derive(Default, Deserialize)]
struct Hashes {
    #[serde(default)]
    sha256: String,
}

impl Lock {
    /// The lock of what pip reports to have chosen.
    ///
    /// # Errors
    /// The report cannot be read, or a package in it has no hash.
    pub(crate) fn of_report(packages: &[String], python: &str, report: &str) -> Result<Self, String> {
        let report: Report =
            serde_json::from_str(report).map_err(|error| format!("pip's report: {error}"))?;
        let mut pins = report.install.into_iter().map(pin).collect::<Result<Vec<_>, _>>()?;
        pins.sort();
        Ok(Self { packages: packages.to_vec(), python: python.to_owned(), pins })
    }

    /// Reads a lock file. `None` if it was not made by [`Lock::to_text`].
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let after = |mark: &str| text.lines().find_map(|line| line.strip_prefix(mark));
        let pins = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        Some(Self {
            packages: serde_json::from_str(after(PACKAGES)?).ok()?,
            python: after(PYTHON)?.to_owned(),
            pins: pins.map(Pin::parse).collect::<Option<_>>()?,
        })
    }

    pub(crate) fn to_text(&self) -> String {
        let packages = serde_json::Value::from(self.packages.clone());
        let mut text = format!("{HEAD}\n{PACKAGES}{packages}\n{PYTHON}{}\n", self.python);
        for Pin { name, version, sha256 } in &self.pins {
            text.push_str(&format!("{name}=={version} --hash=sha256:{sha256}\n"));
        }
        text
    }

    /// The versions, so that another choice keeps them where it can.
    pub(crate) fn constraints(&self) -> String {
        self.pins.iter().map(|pin| format!("{}=={}\n", pin.name, pin.version)).collect()
    }

    /// The name of the environment of this lock: equal locks, equal names.
    pub(crate) fn id(&self) -> String {
        let digest = Sha256::digest(self.to_text());
        digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Pin {
    fn parse(line: &str) -> Option<Self> {
        let (package, sha256) = line.split_once(" --hash=sha256:")?;
        let (name, version) = package.split_once("==")?;
        Some(Self { name: name.into(), version: version.into(), sha256: sha256.trim().into() })
    }
}

fn pin(chosen: Chosen) -> Result<Pin, String> {
    let Chosen { metadata: Metadata { name, version }, download_info } = chosen;
    let Download { url, archive_info: Archive { hash, hashes } } = download_info;
    let told = if hashes.sha256.is_empty() {
        hash.strip_prefix("sha256=").unwrap_or_default()
    } else {
        &hashes.sha256
    };
    let is_hash = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash(told) {
        return Ok(Pin { name, version, sha256: told.to_owned() });
    }
    // Older versions of pip name no hash of a file on this machine.
    let file = url.strip_prefix("file://").map(std::fs::read);
    match file {
        Some(Ok(bytes)) => {
            let sha256 = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            Ok(Pin { name, version, sha256 })
        }
        Some(Err(error)) => Err(format!("{url}: {error}")),
        None => Err(format!("the index gives no sha256 of {name} {version}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn lock() -> Lock {
        let report = format!(
            r#"{{"install": [
                {{"metadata": {{"name": "urllib3", "version": "2.0"}}, "download_info": {{"url": "https://x/u.whl",
                  "archive_info": {{"hashes": {{"sha256": "{HASH}"}}}}}}}},
                {{"metadata": {{"name": "requests", "version": "2.31"}}, "download_info": {{"url": "https://x/r.whl",
                  "archive_info": {{"hash": "sha256={HASH}"}}}}}}
            ]}}"#
        );
        Lock::of_report(&["requests>=2".into()], "3.11 linux-x86_64", &report).unwrap()
    }

    #[test]
    fn what_pip_chose_becomes_a_file_that_reads_back() {
        let text = lock().to_text();
        assert!(text.contains("# packages: [\"requests>=2\"]\n# python: 3.11 linux-x86_64\n"), "{text}");
        let pins = format!("requests==2.31 --hash=sha256:{HASH}\nurllib3==2.0 --hash=sha256:{HASH}\n");
        assert!(text.ends_with(&pins), "{text}");
        assert_eq!(Lock::parse(&text), Some(lock()));
        assert_eq!(lock().constraints(), "requests==2.31\nurllib3==2.0\n");
    }

    #[test]
    fn the_id_is_of_everything_in_the_lock() {
        let mut other = lock();
        other.python = "3.12 linux-x86_64".into();
        assert_eq!(lock().id(), lock().id());
        assert_ne!(lock().id(), other.id());
        assert_eq!(lock().id().len(), 16);
    }

    #[test]
    fn a_package_without_a_hash_and_a_foreign_file_are_refused() {
        let report = r#"{"install": [{"metadata": {"name": "a", "version": "1"}, "download_info": {"url": "https://x/a"}}]}"#;
        let error = Lock::of_report(&[], "", report).unwrap_err();
        assert_eq!(error, "the index gives no sha256 of a 1");
        for text in ["", "requests==2.31\n", "# packages: []\n# python: 3\nrequests==2.31\n"] {
            assert_eq!(Lock::parse(text), None, "{text}");
        }
    }
}

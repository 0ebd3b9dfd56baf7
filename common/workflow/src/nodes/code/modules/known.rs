//! What is known of names: modules of Python's own library, and packages that are named differently from their modules.

/// The top-level modules of Python's own library, of 3.9 to 3.14: one list, because a module that only another
/// version has is no question of packages.
const STANDARD: &str = include_str!("stdlib.txt");

/// Modules whose package has another name, as (module, package).
const OTHER_NAMES: [(&str, &str); 45] = [
    ("Bio", "biopython"),
    ("Crypto", "pycryptodome"),
    ("Cryptodome", "pycryptodomex"),
    ("MySQLdb", "mysqlclient"),
    ("OpenSSL", "pyopenssl"),
    ("PIL", "pillow"),
    ("attr", "attrs"),
    ("bs4", "beautifulsoup4"),
    ("cv2", "opencv-python-headless"),
    ("dateutil", "python-dateutil"),
    ("discord", "discord-py"),
    ("dns", "dnspython"),
    ("docx", "python-docx"),
    ("dotenv", "python-dotenv"),
    ("execjs", "pyexecjs"),
    ("faiss", "faiss-cpu"),
    ("fitz", "pymupdf"),
    ("github", "pygithub"),
    ("googleapiclient", "google-api-python-client"),
    ("grpc", "grpcio"),
    ("jose", "python-jose"),
    ("jwt", "pyjwt"),
    ("kafka", "kafka-python"),
    ("ldap", "python-ldap"),
    ("magic", "python-magic"),
    ("mysql", "mysql-connector-python"),
    ("nacl", "pynacl"),
    ("paho", "paho-mqtt"),
    ("pkg_resources", "setuptools"),
    ("pptx", "python-pptx"),
    ("psycopg2", "psycopg2-binary"),
    ("pythonjsonlogger", "python-json-logger"),
    ("ruamel", "ruamel-yaml"),
    ("serial", "pyserial"),
    ("skimage", "scikit-image"),
    ("sklearn", "scikit-learn"),
    ("slugify", "python-slugify"),
    ("snappy", "python-snappy"),
    ("socks", "pysocks"),
    ("speech_recognition", "speechrecognition"),
    ("telegram", "python-telegram-bot"),
    ("tencentcloud", "tencentcloud-sdk-python"),
    ("usb", "pyusb"),
    ("websocket", "websocket-client"),
    ("yaml", "pyyaml"),
];

/// Modules that call servers by HTTP, and use a proxy that the environment names.
const BY_HTTP: [&str; 9] =
    ["aiohttp", "boto3", "httplib2", "httpx", "openai", "requests", "urllib.request", "urllib3", "yfinance"];

/// Modules that open connections of other protocols, or without asking for a proxy.
const BY_SOCKET: [&str; 20] = [
    "ftplib",
    "grpc",
    "http.client",
    "imaplib",
    "kafka",
    "ldap",
    "mysql",
    "MySQLdb",
    "paho",
    "paramiko",
    "poplib",
    "psycopg",
    "psycopg2",
    "pymongo",
    "pymysql",
    "redis",
    "smtplib",
    "telnetlib",
    "websocket",
    "websockets",
];

/// How a module reaches servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// By HTTP, through a proxy if the environment names one.
    Http,
    /// By connections of its own, which no code node has.
    Socket,
}

/// Whether a top-level module belongs to Python's own library, or is private to some other module.
pub fn is_standard(module: &str) -> bool {
    module.starts_with('_') || STANDARD.split_whitespace().any(|known| known == module)
}

/// The package on PyPI that holds a top-level module, in PyPI's spelling.
pub fn package_of(module: &str) -> String {
    let other = OTHER_NAMES.iter().find(|(known, _)| *known == module);
    other.map_or_else(|| normal(module), |(_, package)| (*package).to_owned())
}

/// Whether packages of these requirements hold a top-level module, as far as names tell: by the table, or as a module
/// of the package's own name.
pub fn holds(requirements: &[String], module: &str) -> bool {
    let wanted = package_of(module);
    // One module may be in several packages, such as opencv-python and opencv-python-headless.
    let kind = ["-headless", "-binary", "-cpu"].into_iter().find_map(|end| wanted.strip_suffix(end));
    requirements.iter().any(|requirement| {
        let name = normal(name_of(requirement));
        name == wanted || name == normal(module) || kind.is_some_and(|kind| kind == name)
    })
}

/// The name in a requirement such as `pandas[excel]>=2,<3 ; python_version > "3"`.
pub fn name_of(requirement: &str) -> &str {
    let requirement = requirement.trim();
    let end = requirement.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')));
    end.map_or(requirement, |end| &requirement[..end])
}

/// A package's name as PyPI compares names: lower case, with one `-` for each run of `-`, `_` and `.`.
pub fn normal(name: &str) -> String {
    let parts = name.split(['-', '_', '.']).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-").to_lowercase()
}

/// The module that calls servers, and how, for the full name of an import; `None` for one that does not.
pub(super) fn reach(dotted: &str) -> Option<(&'static str, Reach)> {
    let is = |known: &&&str| {
        dotted.strip_prefix(**known).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let by_http = BY_HTTP.iter().find(is).map(|name| (*name, Reach::Http));
    by_http.or_else(|| BY_SOCKET.iter().find(is).map(|name| (*name, Reach::Socket)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_leads_to_its_package() {
        for (module, package) in [
            ("bs4", "beautifulsoup4"),
            ("PIL", "pillow"),
            ("cv2", "opencv-python-headless"),
            ("yaml", "pyyaml"),
            ("sklearn", "scikit-learn"),
            ("docx", "python-docx"),
            ("fitz", "pymupdf"),
            ("requests", "requests"),
            ("json_repair", "json-repair"),
            ("some_thing", "some-thing"),
        ] {
            assert_eq!(package_of(module), package, "{module}");
        }
    }

    #[test]
    fn requirements_are_known_by_their_names() {
        for (requirement, module, is) in [
            ("requests", "requests", true),
            ("Requests[socks]>=2.31,<3", "requests", true),
            ("beautifulsoup4==4.12.3", "bs4", true),
            ("PyYAML", "yaml", true),
            ("opencv-python", "cv2", true),
            ("opencv-python-headless", "cv2", true),
            ("psycopg2", "psycopg2", true),
            ("json_repair ; python_version > '3'", "json_repair", true),
            ("requests-mock", "requests", false),
            ("pandas", "numpy", false),
        ] {
            assert_eq!(holds(&[requirement.to_owned()], module), is, "{requirement} {module}");
        }
    }

    #[test]
    fn the_table_is_in_order_and_says_each_module_once() {
        let modules: Vec<_> = OTHER_NAMES.iter().map(|(module, _)| *module).collect();
        assert!(modules.is_sorted_by(|one, other| one < other), "{modules:?}");
        assert!(is_standard("json") && is_standard("__future__") && !is_standard("requests"));
    }
}

//! Settings in the environment: maps variables to settings, by our names and by Dify's, and reads `NAME_FILE`
//! variables.
//!
//! `NAME_FILE` names a file with the text of `NAME`, which is how containers receive secrets. Kubernetes adds
//! variables about services to every container (`TIDEMILL_SCHEDULER_PORT=tcp://10.0.0.1:8700`,
//! `…_SERVICE_HOST`). They look like settings, but are not, and are ignored.

use toml::Table;

use super::{ConfigError, nearest};

/// The prefix of our variables.
const PREFIX: &str = "TIDEMILL_";
/// The suffix of variables that name a file.
const FILE: &str = "_FILE";

/// Other names of settings in the environment: our short ones, and Dify's.
const ENVIRONMENT_ALIASES: [(&str, &str); 43] = [
    ("TIDEMILL_ADMIN_KEY", "scheduler.admin_key"),
    ("TIDEMILL_SECRET_KEY", "scheduler.secret_key"),
    ("TIDEMILL_LOG", "log.level"),
    ("WORKFLOW_MAX_EXECUTION_STEPS", "run.max_steps"),
    ("WORKFLOW_MAX_EXECUTION_TIME", "run.max_execution_time_s"),
    ("TEMPLATE_TRANSFORM_MAX_LENGTH", "run.template_chars_max"),
    ("MAX_VARIABLE_SIZE", "run.variable_bytes_max"),
    ("HUMAN_INPUT_GLOBAL_TIMEOUT_SECONDS", "run.human_input_timeout_s"),
    ("WORKFLOW_CALL_MAX_DEPTH", "run.call_depth_max"),
    ("WEBHOOK_REQUEST_BODY_MAX_SIZE", "scheduler.webhook_bytes_max"),
    ("HTTP_REQUEST_MAX_CONNECT_TIMEOUT", "http.connect_seconds"),
    ("HTTP_REQUEST_MAX_READ_TIMEOUT", "http.read_seconds"),
    ("HTTP_REQUEST_MAX_WRITE_TIMEOUT", "http.write_seconds"),
    ("HTTP_REQUEST_NODE_MAX_TEXT_SIZE", "http.text_bytes_max"),
    ("HTTP_REQUEST_NODE_MAX_BINARY_SIZE", "http.file_bytes_max"),
    ("HTTP_REQUEST_NODE_SSL_VERIFY", "http.ssl_verify"),
    ("SSRF_PROXY_ALL_URL", "http.proxy"),
    ("SSRF_PROXY_HTTP_URL", "http.proxy_http"),
    ("SSRF_PROXY_HTTPS_URL", "http.proxy_https"),
    ("CODE_EXECUTION_ENDPOINT", "code.endpoint"),
    ("CODE_EXECUTION_API_KEY", "code.api_key"),
    ("CODE_EXECUTION_CONNECT_TIMEOUT", "code.connect_timeout_s"),
    ("CODE_EXECUTION_READ_TIMEOUT", "code.read_timeout_s"),
    ("CODE_EXECUTION_WRITE_TIMEOUT", "code.write_timeout_s"),
    ("CODE_EXECUTION_SSL_VERIFY", "code.ssl_verify"),
    ("CODE_MAX_STRING_LENGTH", "code.string_chars_max"),
    ("CODE_MAX_NUMBER", "code.number_max"),
    ("CODE_MIN_NUMBER", "code.number_min"),
    ("CODE_MAX_PRECISION", "code.precision_max"),
    ("CODE_MAX_DEPTH", "code.depth_max"),
    ("CODE_MAX_STRING_ARRAY_LENGTH", "code.string_array_max"),
    ("CODE_MAX_OBJECT_ARRAY_LENGTH", "code.object_array_max"),
    ("CODE_MAX_NUMBER_ARRAY_LENGTH", "code.number_array_max"),
    ("UNSTRUCTURED_API_URL", "documents.unstructured_url"),
    ("UNSTRUCTURED_API_KEY", "documents.unstructured_key"),
    ("UPLOAD_FILE_SIZE_LIMIT", "scheduler.upload_bytes_max"),
    ("UPLOAD_IMAGE_FILE_SIZE_LIMIT", "uploads.image_bytes_max"),
    ("UPLOAD_VIDEO_FILE_SIZE_LIMIT", "uploads.video_bytes_max"),
    ("UPLOAD_AUDIO_FILE_SIZE_LIMIT", "uploads.audio_bytes_max"),
    ("UPLOAD_FILE_EXTENSION_BLACKLIST", "uploads.refused_extensions"),
    ("WORKFLOW_FILE_UPLOAD_LIMIT", "uploads.workflow_files_max"),
    ("FILES_URL", "uploads.url"),
    ("FILES_ACCESS_TIMEOUT", "uploads.url_seconds"),
];
/// The end of Dify's names of settings in MB. Ours are in bytes.
const IN_MEGABYTES: &str = "_FILE_SIZE_LIMIT";

/// Variables with our prefix that are not settings of a section.
const ENVIRONMENT_OTHER: [&str; 5] = [
    "TIDEMILL_CONFIG",
    "TIDEMILL_URL",
    "TIDEMILL_KEY",
    tidemill_base::clock::OFFSET_VARIABLE,
    tidemill_base::crash::VARIABLE,
];

/// A setting from the environment.
pub(super) struct EnvironmentSetting<'a> {
    /// `section.key`.
    pub(super) key: String,
    /// Its text, not converted yet.
    pub(super) text: String,
    /// The variable, for errors.
    pub(super) variable: &'a str,
}

/// The settings in an environment.
///
/// # Errors
/// A variable with our prefix that is not a setting, a setting that is given both as text and as a file, or
/// an unreadable file.
pub(super) fn settings<'a>(
    environment: &'a [(String, String)],
    known: &Table,
) -> Result<Vec<EnvironmentSetting<'a>>, ConfigError> {
    let mut found = Vec::new();
    for (variable, text) in environment {
        if let Some(key) = key_of(variable, known) {
            found.push(EnvironmentSetting { key, text: in_our_unit(variable, text), variable });
        } else if let Some(key) = of_file(variable).and_then(|name| key_of(name, known)) {
            let wrong =
                |reason: String| ConfigError::Value { key: key.clone(), origin: variable.clone(), reason };
            if let Some((other, _)) = environment.iter().find(|(name, _)| of_file(variable) == Some(name)) {
                return Err(wrong(format!("{other} is set as well; set one of them")));
            }
            let text = read(text).map_err(wrong)?;
            found.push(EnvironmentSetting { key, text, variable });
        } else if variable.starts_with(PREFIX) && !is_other(variable) && !is_service_link(variable, text) {
            let names = names(known);
            let name = of_file(variable).unwrap_or(variable);
            let nearest = nearest(name, names.iter());
            return Err(ConfigError::Unknown {
                key: variable.clone(),
                origin: "the environment".into(),
                nearest,
            });
        }
    }
    Ok(found)
}

/// The text of a variable of this process, or of the file that `NAME_FILE` names. Used for secrets of
/// providers, tools and services, which settings name by their variables.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().or_else(|| {
        let path = std::env::var(format!("{name}{FILE}")).ok()?;
        read(&path).map_err(|error| tracing::warn!(variable = name, error, "a secret cannot be read")).ok()
    })
}

/// Removes the line end that editors and `echo` add at the end of the file.
fn read(path: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    Ok(text.strip_suffix('\n').map_or(text.as_str(), |line| line.trim_end_matches('\r')).to_owned())
}

/// A text in the unit of the setting. One that is no number stays, and is refused with its name.
fn in_our_unit(variable: &str, text: &str) -> String {
    let is_in_megabytes = !variable.starts_with(PREFIX) && variable.ends_with(IN_MEGABYTES);
    match text.trim().parse::<u64>() {
        Ok(megabytes) if is_in_megabytes => megabytes.saturating_mul(1024 * 1024).to_string(),
        _ => text.to_owned(),
    }
}

fn of_file(variable: &str) -> Option<&str> {
    variable.strip_suffix(FILE)
}

fn is_other(variable: &str) -> bool {
    ENVIRONMENT_OTHER.contains(&variable)
        || of_file(variable).is_some_and(|name| ENVIRONMENT_OTHER.contains(&name))
}

/// Whether Kubernetes (or Docker's links) sets this variable for a service.
fn is_service_link(variable: &str, text: &str) -> bool {
    let words: Vec<&str> = variable.split('_').collect();
    let is_number = |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let is_protocol = |word: &&str| matches!(*word, "TCP" | "UDP" | "SCTP");
    match words.as_slice() {
        [.., "SERVICE", "HOST"] => true,
        [.., "PORT", number, protocol, "PROTO" | "PORT" | "ADDR"] if is_protocol(protocol) => {
            is_number(number)
        }
        [.., "PORT", number, protocol] if is_protocol(protocol) => is_number(number),
        [.., "PORT"] => text.is_empty() || text.contains("://") || variable.ends_with("_SERVICE_PORT"),
        // Named ports: TIDEMILL_SERVICE_PORT_HTTP=8700.
        _ => variable.contains("_SERVICE_PORT_") && text.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

fn key_of(variable: &str, known: &Table) -> Option<String> {
    if let Some((_, key)) = ENVIRONMENT_ALIASES.iter().find(|(alias, _)| *alias == variable) {
        return Some((*key).to_string());
    }
    let rest = variable.strip_prefix(PREFIX)?;
    keys(known)
        .find(|(section, key)| format!("{section}_{key}").to_uppercase() == rest)
        .map(|(section, key)| format!("{section}.{key}"))
}

fn names(known: &Table) -> Vec<String> {
    keys(known)
        .map(|(section, key)| format!("{PREFIX}{}", format!("{section}_{key}").to_uppercase()))
        .collect()
}

fn keys(known: &Table) -> impl Iterator<Item = (&String, &String)> {
    known.iter().flat_map(|(section, keys)| {
        keys.as_table().into_iter().flat_map(Table::keys).map(move |key| (section, key))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Sources};
    use super::*;

    fn load(environment: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let environment = environment.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        Config::load(&Sources { file: None, environment, flags: Vec::new() })
    }

    #[test]
    fn service_variables_of_kubernetes_are_ignored() {
        for service in
            ["TIDEMILL", "TIDEMILL_SCHEDULER", "TIDEMILL_WORKER", "TIDEMILL_REDIS", "TIDEMILL_MY_APP"]
        {
            let name = |rest: &str| format!("{service}_{rest}");
            for (rest, text) in [
                ("SERVICE_HOST", "10.0.0.1"),
                ("SERVICE_PORT", "8700"),
                ("SERVICE_PORT_HTTP", "8700"),
                ("SERVICE_PORT_METRICS_V2", "8702"),
                ("PORT", "tcp://10.0.0.1:8700"),
                ("PORT_8700_TCP", "tcp://10.0.0.1:8700"),
                ("PORT_8700_TCP_PROTO", "tcp"),
                ("PORT_8700_TCP_PORT", "8700"),
                ("PORT_8700_TCP_ADDR", "10.0.0.1"),
                ("PORT_53_UDP", "udp://10.0.0.1:53"),
            ] {
                assert_eq!(load(&[(&name(rest), text)]).ok(), load(&[]).ok(), "{}", name(rest));
            }
        }
    }

    #[test]
    fn sizes_of_dify_are_in_megabytes() {
        let sizes = [
            ("UPLOAD_FILE_SIZE_LIMIT", "20"),
            ("UPLOAD_AUDIO_FILE_SIZE_LIMIT", "1"),
            ("TIDEMILL_UPLOADS_IMAGE_BYTES_MAX", "7"),
            ("UPLOAD_FILE_EXTENSION_BLACKLIST", "exe, bat"),
        ];
        let config = load(&sizes).unwrap();
        assert_eq!((config.scheduler.upload_bytes_max, config.uploads.audio_bytes_max), (20 << 20, 1 << 20));
        assert_eq!(config.uploads.image_bytes_max, 7);
        assert_eq!(config.uploads.refused_extensions, ["exe", "bat"]);
        let error = load(&[("UPLOAD_FILE_SIZE_LIMIT", "much")]).unwrap_err().to_string();
        assert!(error.contains("UPLOAD_FILE_SIZE_LIMIT"), "{error}");
    }

    #[test]
    fn a_misspelled_setting_is_not_taken_for_a_service_variable() {
        for (name, text) in [
            ("TIDEMILL_SCHEDULER_PORT", "8700"),
            ("TIDEMILL_REDIS_HOST", "localhost"),
            ("TIDEMILL_WORKER_PERMIT", "4"),
            ("TIDEMILL_SERVICE_PORT_", "x"),
            ("TIDEMILL_PORT_X_TCP", "tcp://x"),
        ] {
            let error = load(&[(name, text)]).unwrap_err().to_string();
            assert!(error.contains(&format!("unknown setting {name} in the environment")), "{error}");
        }
    }

    #[test]
    fn a_setting_may_be_in_a_file_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let key = file("key", "a key of more than sixteen\n");
        let (number, url) = (file("number", "7"), file("url", "redis://:pw@h:1\r\n"));
        let config = load(&[
            ("TIDEMILL_ADMIN_KEY_FILE", &key),
            ("TIDEMILL_SCHEDULER_SECRET_KEY_FILE", &key),
            ("TIDEMILL_WORKER_PERMITS_FILE", &number),
            ("TIDEMILL_REDIS_URL_FILE", &url),
            ("CODE_EXECUTION_API_KEY_FILE", &key),
            ("TIDEMILL_REDIS_CA_FILE", "/a/setting/of/its/own"),
            ("TIDEMILL_REDIS_KEY_FILE", "/another/one"),
            ("TIDEMILL_REDIS_SENTINEL_PASSWORD_FILE", &key),
            ("TIDEMILL_KEY_FILE", "/of/the/command/line"),
            ("OTHER_FILE", "/not/ours"),
        ])
        .unwrap();
        assert_eq!(config.scheduler.admin_key.as_str(), "a key of more than sixteen");
        assert_eq!(config.scheduler.secret_key, config.scheduler.admin_key);
        assert_eq!(config.code.api_key, config.scheduler.admin_key);
        assert_eq!((config.worker.permits, config.redis.url.as_str()), (7, "redis://:pw@h:1"));
        assert_eq!(config.redis.ca_file, "/a/setting/of/its/own");
        assert_eq!(config.redis.key_file, "/another/one");
        assert_eq!(config.redis.sentinel_password, config.scheduler.admin_key);
    }

    #[test]
    fn a_file_that_cannot_be_read_or_is_one_too_many_is_refused_by_its_variable() {
        let error = load(&[("TIDEMILL_ADMIN_KEY_FILE", "/no/such/file")]).unwrap_err().to_string();
        assert!(
            error.starts_with(
                "setting scheduler.admin_key in TIDEMILL_ADMIN_KEY_FILE: cannot read /no/such/file:"
            ),
            "{error}"
        );
        let both =
            [("TIDEMILL_ADMIN_KEY", "some text of enough"), ("TIDEMILL_ADMIN_KEY_FILE", "/no/such/file")];
        let error = load(&both).unwrap_err().to_string();
        assert!(error.contains("TIDEMILL_ADMIN_KEY is set as well"), "{error}");
        let error = load(&[("TIDEMILL_REDIS_URI_FILE", "/x")]).unwrap_err().to_string();
        assert!(error.contains("did you mean TIDEMILL_REDIS_URL?"), "{error}");
    }
}

//! Starts the process of a plugin: its folder, its network, its variables, and what it may read and write.

use std::path::PathBuf;
use std::sync::Arc;

use tidemill_common::http::Http;
use tidemill_sandbox::guest::Guest;
use tidemill_sandbox::helper::Host;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::gate::{Gate, OnOffer};
use super::scratch::{Base, Scratch};
use super::shared::Shared;
use super::{Belongings, Process, ProcessError};
use crate::install::Installed;
use crate::settings::Settings;

/// Files of the system that libraries read: certificates, settings of TLS, names of servers and services, kinds of files, fonts.
const SYSTEM: [&str; 14] = [
    "/etc/ssl",
    "/usr/share/ca-certificates",
    "/usr/lib/ssl",
    "/etc/pki",
    "/etc/crypto-policies",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/mime.types",
    "/usr/share/mime",
    "/usr/share/fonts",
    "/etc/fonts",
];
/// Lines to the plugin that may wait.
const LINES_WAITING_MAX: usize = 64;

/// What a process is started with.
pub(super) struct Launch<'a> {
    pub(super) installed: &'a Arc<Installed>,
    pub(super) settings: &'a Settings,
    pub(super) host: &'a Host,
    pub(super) http: &'a Arc<Http>,
    /// The folder of this process of the host.
    pub(super) base: std::io::Result<Arc<Base>>,
}

impl Launch<'_> {
    /// Starts the process and waits for its first heartbeat.
    pub(super) async fn start(self, permit: OwnedSemaphorePermit) -> Result<Process, ProcessError> {
        let Launch { installed, settings, host, http, base } = self;
        let plugin = installed.package.id();
        let failed = |reason: String| ProcessError::Start { plugin: plugin.clone(), reason };
        let offered = OnOffer::default();
        let gate = Gate::open(http.clone(), offered.clone(), &settings.process).await;
        let gate = gate.map_err(|error| failed(format!("its network: {error}")))?;
        let scratch = base.and_then(|base| Scratch::new(base, settings, http));
        let scratch = scratch.map_err(|error| failed(format!("its folder: {error}")))?;
        let guest = guest(installed, settings, &scratch, gate.port);
        let variables = variables(settings, &scratch, &gate.address());
        let running = guest.start(host, &variables).map_err(failed)?;
        let (input, lines) = mpsc::channel(LINES_WAITING_MAX);
        let permissions = installed.package.manifest.permissions.clone();
        let shared = Arc::new(Shared::new(plugin.clone(), settings.process.clone(), permissions, input));
        let installed = installed.clone();
        let belongings = Belongings { running, scratch, _gate: gate, _permit: permit, _installed: installed };
        Process::new(belongings, shared, lines, offered).await
    }
}

fn guest(installed: &Installed, settings: &Settings, scratch: &Scratch, port: u16) -> Guest {
    let mut reads: Vec<PathBuf> = installed.interpreter.library().to_vec();
    reads.extend([installed.folder.clone(), installed.environment.clone()]);
    reads.push(scratch.certificates());
    reads.extend(SYSTEM.map(PathBuf::from));
    let limits = &settings.process;
    Guest {
        executable: installed.environment.join("bin/python"),
        arguments: ["-B", "-X", "utf8", "-m", &installed.package.manifest.runner.entrypoint]
            .map(String::from)
            .to_vec(),
        folder: installed.folder.clone(),
        reads,
        writes: vec![scratch.home(), "/dev/null".into()],
        user: settings.user,
        allow_weaker: settings.allow_weaker,
        memory_bytes: limits.memory_bytes_max,
        file_bytes: limits.file_bytes_max,
        processes_max: limits.threads_max,
        ports: vec![port],
    }
}

fn variables(settings: &Settings, scratch: &Scratch, proxy: &str) -> Vec<(String, String)> {
    let home = scratch.home().display().to_string();
    let seconds = settings.process.session_timeout.as_secs().max(1).to_string();
    let mut variables: Vec<(&str, String)> = vec![
        ("PATH", "/usr/bin:/bin".into()),
        ("LANG", "C.UTF-8".into()),
        ("INSTALL_METHOD", "local".into()),
        ("MAX_REQUEST_TIMEOUT", seconds.clone()),
        ("MAX_INVOCATION_TIMEOUT", seconds),
        ("PYTHONNOUSERSITE", "1".into()),
        ("PYTHONDONTWRITEBYTECODE", "1".into()),
        ("MPLCONFIGDIR", home.clone()),
        ("TMPDIR", home.clone()),
        ("HOME", home),
    ];
    for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        variables.push((name, proxy.to_owned()));
    }
    let file = scratch.certificates();
    if file.is_file() {
        for name in ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"] {
            variables.push((name, file.display().to_string()));
        }
    }
    variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

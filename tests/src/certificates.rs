//! An authority of the tests, and certificates that it has signed: one for servers and one for clients.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

/// Certificates and keys in files.
#[derive(Debug)]
pub struct Certificates {
    folder: TempDir,
}

impl Certificates {
    /// Makes an authority, and certificates for the loopback interface and for clients.
    ///
    /// # Panics
    /// When they cannot be made or written.
    pub fn make() -> Self {
        let folder = tempfile::Builder::new().prefix("tidemill-certificates-").tempdir();
        let folder = folder.expect("there is room for a temporary folder");
        let write = |name: &str, text: String| {
            std::fs::write(folder.path().join(name), text).expect("it can be written");
        };
        let key = || KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "the authority of the tests");
        let authority = CertifiedIssuer::self_signed(params, key()).expect("a certificate");
        write("ca.pem", authority.as_ref().pem());
        for (name, host) in [("server", "127.0.0.1"), ("client", "client.tidemill.example")] {
            let own = key();
            let mut params = CertificateParams::new([host.to_string()]).expect("parameters");
            params.distinguished_name.push(DnType::CommonName, name);
            let made = params.signed_by(&own, &authority).expect("a certificate");
            write(&format!("{name}.pem"), made.pem());
            write(&format!("{name}.key"), own.serialize_pem());
        }
        Self { folder }
    }

    /// A file: `ca.pem`, `server.pem`, `server.key`, `client.pem` or `client.key`.
    pub fn file(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().into_owned()
    }

    /// Arguments of a server that speaks TLS at this port and wants a certificate of its clients.
    pub fn arguments(&self, port: u16) -> Vec<String> {
        let pairs = [
            ("--tls-port", port.to_string()),
            ("--tls-cert-file", self.file("server.pem")),
            ("--tls-key-file", self.file("server.key")),
            ("--tls-ca-cert-file", self.file("ca.pem")),
            ("--tls-auth-clients", "yes".into()),
        ];
        pairs.into_iter().flat_map(|(name, value)| [name.to_string(), value]).collect()
    }
}

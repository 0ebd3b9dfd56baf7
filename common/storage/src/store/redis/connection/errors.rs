//! Turns the client library's errors into errors that name the server and say what to do.

use redis::{ConnectionAddr, ErrorKind, RedisError};

use crate::store::StoreError;
use crate::store::redis::connection::server_state;

/// Explains an error of the server at this address.
pub(in crate::store::redis) fn explain(address: &str, doing: &'static str, error: &RedisError) -> StoreError {
    let reason = words(error);
    let unreachable = |reason| StoreError::Unreachable { address: address.to_string(), doing, reason };
    let denied = |reason| StoreError::Denied { address: address.to_string(), doing, reason };
    match code(error).as_deref() {
        // Before version 7 a script reports this error under its own code.
        _ if reason.contains("OOM command not allowed") => StoreError::Refused { doing, reason },
        // A master that was demoted or cut off and kept its connections answers this for ever. A new connection leads
        // to the new master.
        _ if is_read_only(error) || is_cut_off(error) => unreachable(reason),
        Some(
            "OOM" | "EXECABORT" | "TRYAGAIN" | "LOADING" | "BUSY" | "MASTERDOWN" | "MISCONF" | "CLUSTERDOWN",
        ) => StoreError::Refused { doing, reason },
        Some("NOAUTH" | "WRONGPASS" | "NOPERM") => denied(reason),
        _ if error.kind() == ErrorKind::AuthenticationFailed => denied(reason),
        // Scripts report a command that the user may not call in a different form.
        _ if reason.contains("NOPERM") || reason.contains("ACL failure in script") => denied(reason),
        Some("MOVED" | "ASK" | "CROSSSLOT") => StoreError::Unusable(server_state::is_cluster(address)),
        // A reply that ended early: the connection broke.
        _ if error.kind() == ErrorKind::Parse => unreachable(reason),
        _ if error.is_io_error() || error.is_timeout() || error.is_connection_dropped() => {
            unreachable(reason)
        }
        _ => StoreError::Unexpected { doing, reason },
    }
}

/// Like [`explain`], for a connection that could not be opened. Adds a hint about TLS, which is the most likely cause and
/// which neither side reports.
pub(super) fn not_connected(address: &str, to: &ConnectionAddr, error: &RedisError) -> StoreError {
    let error = explain(address, "connecting", error);
    let StoreError::Unreachable { address, doing, reason } = error else { return error };
    if let Some(reason) = certificate_wanted(&reason).or_else(|| certificate_refused(&reason)) {
        return StoreError::Unreachable { address, doing, reason };
    }
    let hint = match to {
        ConnectionAddr::TcpTls { .. } => {
            "the address says rediss://: does the server speak TLS at this port, with a certificate that redis.ca_file or a public authority vouches for?"
        }
        ConnectionAddr::Tcp(..) => "a server that speaks TLS alone needs rediss:// in redis.url",
        _ => return StoreError::Unreachable { address, doing, reason },
    };
    // A refused port or an unknown host says enough.
    let is_plain = ["refused", "resolve", "lookup", "unreachable"].iter().any(|word| reason.contains(word));
    let reason = if is_plain { reason } else { format!("{reason}; {hint}") };
    StoreError::Unreachable { address, doing, reason }
}

/// Explains a server that asks for a certificate of its clients and got none. Without this the reason would look like a
/// problem of the server's certificate.
fn certificate_wanted(reason: &str) -> Option<String> {
    let is_wanted = ["CertificateRequired", "certificate required", "certificate_required"];
    is_wanted.iter().any(|word| reason.contains(word)).then(|| {
        format!(
            "{reason}; the server asks its clients for a certificate: set redis.certificate_file and redis.key_file, or set \
             `tls-auth-clients no` (or `optional`) in its redis.conf, and use a password or an ACL user"
        )
    })
}

/// Explains a server that does not accept the certificate of this process.
fn certificate_refused(reason: &str) -> Option<String> {
    let refusals = [
        "UnknownCA",
        "BadCertificate",
        "CertificateExpired",
        "CertificateRevoked",
        "UnsupportedCertificate",
        // The signature is wrong: an authority of the same name, with another key.
        "DecryptError",
    ];
    let is_refused = reason.contains("received fatal alert") && refusals.iter().any(|it| reason.contains(it));
    is_refused.then(|| {
        format!(
            "{reason}; the server does not accept the certificate of redis.certificate_file: is it valid, and signed by an \
             authority of `tls-ca-cert-file` in its redis.conf?"
        )
    })
}

/// The error text. The same error of several commands appears once.
fn words(error: &RedisError) -> String {
    match error.clone().into_server_errors().as_deref() {
        Some([(_, first), rest @ ..]) if rest.iter().all(|(_, error)| error == first) => {
            match first.details() {
                Some(details) => format!("{} {details}", first.code()),
                None => first.code().to_string(),
            }
        }
        _ => error.to_string(),
    }
}

/// Whether the server is a read-only replica. Scripts report it in a different form.
pub(in crate::store::redis) fn is_read_only(error: &RedisError) -> bool {
    code(error).as_deref() == Some("READONLY") || error.to_string().contains("READONLY")
}

/// Whether the server lost its replicas, which may follow another master now (`NOREPLICAS`), or was demoted while a
/// command waited (`UNBLOCKED`).
pub(in crate::store::redis) fn is_cut_off(error: &RedisError) -> bool {
    matches!(code(error).as_deref(), Some("NOREPLICAS" | "UNBLOCKED"))
        || error.to_string().contains("NOREPLICAS")
}

/// Whether an explained error says that another server may be the master by now: the server refuses writes, because it is
/// a replica or has none.
pub(in crate::store::redis) fn is_left(error: &StoreError) -> bool {
    let StoreError::Unreachable { reason, .. } = error else { return false };
    ["READONLY", "NOREPLICAS", "UNBLOCKED"].iter().any(|code| reason.contains(code))
}

/// The server's error code. The library has no code for several commands at once.
fn code(error: &RedisError) -> Option<String> {
    let of_first = || Some(error.clone().into_server_errors()?.first()?.1.code().to_string());
    error.code().map(str::to_string).or_else(of_first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::ServerErrorKind;

    #[test]
    fn a_full_server_is_a_passing_error_in_every_form() {
        let passing = |error: RedisError| explain("a", "testing", &error).is_passing();
        let oom = "OOM command not allowed when used memory > 'maxmemory'.".to_string();
        let script = format!("Error running script (call to f_1): @user_script:3: -{oom}");
        assert!(passing((ErrorKind::Extension, "OOM", oom).into()));
        assert!(passing((ErrorKind::Server(ServerErrorKind::ResponseError), "ERR", script).into()));
        assert!(passing((ErrorKind::Server(ServerErrorKind::BusyLoading), "LOADING").into()));
        assert!(!passing((ErrorKind::Server(ServerErrorKind::ResponseError), "ERR", "no".into()).into()));
    }

    #[test]
    fn a_connection_to_a_demoted_master_is_dropped() {
        let left =
            |error: RedisError| matches!(explain("a", "testing", &error), StoreError::Unreachable { .. });
        let text = "You can't write against a read only replica.".to_string();
        let script = format!("Error running script (call to f_1): @user_script:3: -READONLY {text}");
        assert!(left((ErrorKind::Server(ServerErrorKind::ReadOnly), "READONLY", text).into()));
        assert!(left((ErrorKind::Server(ServerErrorKind::ResponseError), "ERR", script).into()));
    }

    #[test]
    fn a_server_that_refuses_writes_may_no_longer_be_the_master() {
        let left = |error: RedisError| is_left(&explain("a", "testing", &error));
        let few = "Not enough good replicas to write.".to_string();
        assert!(left((ErrorKind::Extension, "NOREPLICAS", few).into()));
        assert!(left((ErrorKind::Server(ServerErrorKind::ReadOnly), "READONLY", "no".into()).into()));
        assert!(!left((ErrorKind::Extension, "OOM", "no".into()).into()));
    }
}

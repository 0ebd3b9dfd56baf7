//! Connections: a shared one for short requests, replaced when it breaks; separate ones for blocking requests
//! and for those that must not reconnect silently. Turns the library's errors into errors that say what to
//! do.

pub(super) mod check;
pub(super) mod config;
mod keys_of;
pub(super) mod one_slot;
pub(super) mod pubsub;
pub(super) mod replies;
pub(super) mod roots;
mod server_state;
pub(super) mod wire_connection;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError, Script};
use redis::{ConnectionAddr, TlsCertificates};
use rustls::RootCertStore;

use super::StoreError;
use crate::store::redis::connection::config::RedisConfig;
use crate::store::redis::connection::roots::Roots;
use crate::store::redis::connection::wire_connection::{Line, Replies, Request};
use crate::store::redis::keys::Keys;
use tidemill_base::hidden::masked_url;

/// Opens connections to one server.
#[derive(Clone)]
pub(super) struct Connector {
    client: Client,
    /// The trusted certificates for TLS.
    roots: Arc<RootCertStore>,
    shared: Arc<Mutex<Option<MultiplexedConnection>>>,
    /// Idle lines.
    lines: Arc<Mutex<Vec<Line>>>,
    timeout: Duration,
    /// The names of the namespace's keys, for the check that the keys of a request are in one slot.
    keys: Keys,
    /// The address without password, for messages.
    pub(super) address: Arc<str>,
}

impl Connector {
    pub(super) fn new(config: &RedisConfig) -> Result<Self, StoreError> {
        let address = masked_url(&config.url);
        // The library's own message names one of its build options.
        if config.url.ends_with("#insecure") {
            return Err(StoreError::Unusable(format!(
                "redis.url {address} ends with #insecure, but Tidemill always checks the server's certificate; remove \
                 #insecure, and name the file with the certificates to trust in redis.ca_file"
            )));
        }
        let Roots { pem, store } = Roots::of(&config.ca_file)?;
        let client = match pem {
            // The library accepts certificates only for such an address.
            Some(pem) if config.url.starts_with("rediss://") => {
                let certificates = TlsCertificates { client_tls: None, root_cert: Some(pem) };
                Client::build_with_tls(config.url.as_str(), certificates)
            }
            Some(_) | None => Client::open(config.url.as_str()),
        };
        let client = client.map_err(|e| {
            StoreError::Unusable(format!(
                "redis.url {address} is not a Redis address: {e}; use one like redis://127.0.0.1:6379"
            ))
        })?;
        Ok(Self {
            client,
            roots: Arc::new(store),
            shared: Arc::default(),
            lines: Arc::default(),
            timeout: Duration::from_millis(config.timeout_ms),
            keys: Keys::new(&config.namespace),
            address: address.into(),
        })
    }

    /// Opens a separate connection. `blocks` is the longest time that a command on it blocks at the server.
    pub(super) async fn open(&self, blocks: Duration) -> Result<MultiplexedConnection, StoreError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            // The response timeout exceeds the server's wait, so that a half-open connection does not block
            // for ever.
            .set_response_timeout(Some(self.timeout + blocks));
        let opened = self.client.get_multiplexed_async_connection_with_config(&config).await;
        opened.map_err(|e| self.not_connected(&e))
    }

    /// Opens a line: a connection with one user, whose replies are read in place.
    pub(super) async fn open_line(&self) -> Result<Line, StoreError> {
        let opened = Line::open(self.client.get_connection_info(), &self.roots, self.timeout).await;
        opened.map_err(|e| self.not_connected(&e))
    }

    /// Sends a request over an idle or new line and passes its replies to `read`.
    pub(super) async fn ask_line<T>(
        &self,
        doing: &'static str,
        request: &Request,
        read: impl FnOnce(Replies<'_>) -> Result<T, RedisError>,
    ) -> Result<T, StoreError> {
        if one_slot::IS_CHECKED {
            one_slot::check_request(&self.keys, doing, request);
        }
        let free = || self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = free().pop();
        let mut line = match idle {
            Some(line) => line,
            None => self.open_line().await?,
        };
        let answer = line.ask(request, Duration::ZERO).await;
        let answer = answer.and_then(read).map_err(|e| self.error(doing, &e));
        match &answer {
            // The other idle lines lead to the same server.
            Err(StoreError::Unreachable { .. }) => free().clear(),
            _ => free().push(line),
        }
        answer
    }

    /// Like [`Self::ask_line`], for a request that calls a script, which the server may not know yet.
    pub(super) async fn ask_script<T>(
        &self,
        doing: &'static str,
        script: &Script,
        request: &Request,
        read: impl Fn(Replies<'_>) -> Result<T, RedisError>,
    ) -> Result<T, StoreError> {
        let known = |replies: Replies<'_>| match replies.checked() {
            Ok(replies) => read(replies).map(Some),
            Err(error) if error.code() == Some("NOSCRIPT") => Ok(None),
            Err(error) => Err(error),
        };
        if let Some(answer) = self.ask_line(doing, request, known).await? {
            return Ok(answer);
        }
        let mut connection = self.shared().await?;
        let loaded = script.prepare_invoke().load_async(&mut connection).await;
        self.settle(doing, loaded.map(drop))?;
        self.ask_line(doing, request, |replies| read(replies.checked()?)).await
    }

    /// Opens a connection for subscriptions.
    pub(super) async fn open_pubsub(&self) -> Result<PubSub, StoreError> {
        match tokio::time::timeout(self.timeout, self.client.get_async_pubsub()).await {
            Ok(opened) => opened.map_err(|e| self.not_connected(&e)),
            Err(_) => Err(StoreError::Unreachable {
                address: self.address.to_string(),
                doing: "connecting",
                reason: "no answer in time".into(),
            }),
        }
    }

    /// The shared connection; opens it if needed.
    pub(super) async fn shared(&self) -> Result<MultiplexedConnection, StoreError> {
        if let Some(connection) = self.lock().as_ref() {
            return Ok(connection.clone());
        }
        let connection = self.open(Duration::ZERO).await?;
        *self.lock() = Some(connection.clone());
        Ok(connection)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<MultiplexedConnection>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a command over the shared connection.
    pub(super) async fn ask<T: FromRedisValue>(
        &self,
        doing: &'static str,
        command: &Cmd,
    ) -> Result<T, StoreError> {
        if one_slot::IS_CHECKED {
            one_slot::check_command(&self.keys, doing, command);
        }
        let mut connection = self.shared().await?;
        let answer = command.query_async(&mut connection).await;
        self.settle(doing, answer)
    }

    /// Sends several commands at once over the shared connection.
    pub(super) async fn ask_all<T: FromRedisValue>(
        &self,
        doing: &'static str,
        pipe: &Pipeline,
    ) -> Result<T, StoreError> {
        if one_slot::IS_CHECKED {
            one_slot::check_pipeline(&self.keys, doing, pipe);
        }
        let mut connection = self.shared().await?;
        let answer = pipe.query_async(&mut connection).await;
        self.settle(doing, answer)
    }

    /// Runs a script over the shared connection.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        doing: &'static str,
        script: &Script,
        keys: &[String],
        args: &[Arg<'_>],
    ) -> Result<T, StoreError> {
        if one_slot::IS_CHECKED {
            one_slot::check(&self.keys, doing, keys.iter().map(String::as_str));
        }
        let mut connection = self.shared().await?;
        let mut call = script.prepare_invoke();
        keys.iter().for_each(|key| {
            call.key(key);
        });
        args.iter().for_each(|arg| match arg {
            Arg::Text(text) => {
                call.arg(*text);
            }
            Arg::Owned(text) => {
                call.arg(text);
            }
        });
        let answer = call.invoke_async(&mut connection).await;
        self.settle(doing, answer)
    }

    fn settle<T>(&self, doing: &'static str, answer: Result<T, RedisError>) -> Result<T, StoreError> {
        answer.map_err(|error| {
            let error = self.error(doing, &error);
            if matches!(error, StoreError::Unreachable { .. }) {
                // The next request reconnects.
                *self.lock() = None;
            }
            error
        })
    }

    fn denied(&self, doing: &'static str, reason: String) -> StoreError {
        StoreError::Denied { address: self.address.to_string(), doing, reason }
    }

    /// Like [`Self::error`], for a connection that could not be opened. Adds a hint about TLS, which is the
    /// most likely cause and which neither side reports.
    fn not_connected(&self, error: &RedisError) -> StoreError {
        let error = self.error("connecting", error);
        let StoreError::Unreachable { address, doing, reason } = error else { return error };
        if let Some(reason) = certificate_wanted(&reason) {
            return StoreError::Unreachable { address, doing, reason };
        }
        let hint = match self.client.get_connection_info().addr() {
            ConnectionAddr::TcpTls { .. } => {
                "the address says rediss://: does the server speak TLS at this port, with a certificate that redis.ca_file or a public authority vouches for?"
            }
            ConnectionAddr::Tcp(..) => "a server that speaks TLS alone needs rediss:// in redis.url",
            _ => return StoreError::Unreachable { address, doing, reason },
        };
        // A refused port or an unknown host says enough.
        let is_plain =
            ["refused", "resolve", "lookup", "unreachable"].iter().any(|word| reason.contains(word));
        let reason = if is_plain { reason } else { format!("{reason}; {hint}") };
        StoreError::Unreachable { address, doing, reason }
    }

    pub(super) fn error(&self, doing: &'static str, error: &RedisError) -> StoreError {
        let reason = words(error);
        match code(error).as_deref() {
            // Before version 7 a script reports this error under its own code.
            _ if reason.contains("OOM command not allowed") => StoreError::Refused { doing, reason },
            // A demoted master that kept its connections answers this for ever. A new connection leads to the
            // new master.
            _ if is_read_only(error) => {
                StoreError::Unreachable { address: self.address.to_string(), doing, reason }
            }
            Some(
                "OOM" | "EXECABORT" | "TRYAGAIN" | "LOADING" | "BUSY" | "MASTERDOWN" | "MISCONF"
                | "NOREPLICAS" | "CLUSTERDOWN",
            ) => StoreError::Refused { doing, reason },
            Some("NOAUTH" | "WRONGPASS" | "NOPERM") => self.denied(doing, reason),
            _ if error.kind() == ErrorKind::AuthenticationFailed => self.denied(doing, reason),
            // Scripts report a command that the user may not call in a different form.
            _ if reason.contains("NOPERM") || reason.contains("ACL failure in script") => {
                self.denied(doing, reason)
            }
            Some("MOVED" | "ASK" | "CROSSSLOT") => {
                StoreError::Unusable(server_state::is_cluster(&self.address))
            }
            // A reply that ended early: the connection broke.
            _ if error.kind() == ErrorKind::Parse => {
                StoreError::Unreachable { address: self.address.to_string(), doing, reason }
            }
            _ if error.is_io_error() || error.is_timeout() || error.is_connection_dropped() => {
                StoreError::Unreachable { address: self.address.to_string(), doing, reason }
            }
            _ => StoreError::Unexpected { doing, reason },
        }
    }
}

/// Explains a server that asks for a certificate of its clients. Without this the reason would look like a problem of
/// the server's certificate.
fn certificate_wanted(reason: &str) -> Option<String> {
    let is_wanted = ["CertificateRequired", "certificate required", "certificate_required"];
    is_wanted.iter().any(|word| reason.contains(word)).then(|| {
        format!(
            "{reason}; the server asks its clients for a certificate, which Tidemill cannot present: set \
             `tls-auth-clients no` (or `optional`) in its redis.conf, and use a password or an ACL user"
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
pub(super) fn is_read_only(error: &RedisError) -> bool {
    code(error).as_deref() == Some("READONLY") || error.to_string().contains("READONLY")
}

/// The server's error code. The library has no code for several commands at once.
fn code(error: &RedisError) -> Option<String> {
    let of_first = || Some(error.clone().into_server_errors()?.first()?.1.code().to_string());
    error.code().map(str::to_string).or_else(of_first)
}

/// An argument of a script.
pub(super) enum Arg<'a> {
    Text(&'a str),
    Owned(String),
}
impl<'a> From<&'a str> for Arg<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}
impl<'a> From<&'a String> for Arg<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}
impl From<String> for Arg<'_> {
    fn from(text: String) -> Self {
        Self::Owned(text)
    }
}
macro_rules! number_args {
    ($($ty:ty)*) => { $(impl From<$ty> for Arg<'_> {
        fn from(number: $ty) -> Self {
            Self::Owned(number.to_string())
        }
    })* };
}
number_args!(u16 u32 u64 i64 usize u128);

/// Builds script arguments of different types.
macro_rules! args {
    ($($arg:expr),* $(,)?) => { [$($crate::store::redis::connection::Arg::from($arg)),*] };
}
pub(super) use args;

#[cfg(test)]
mod tests {
    use super::*;
    use redis::{ErrorKind, ServerErrorKind};

    #[test]
    fn a_full_server_is_a_passing_error_in_every_form() {
        let connector = Connector::new(&RedisConfig::default()).unwrap();
        let passing = |error: RedisError| connector.error("testing", &error).is_passing();
        let oom = "OOM command not allowed when used memory > 'maxmemory'.".to_string();
        let script = format!("Error running script (call to f_1): @user_script:3: -{oom}");
        assert!(passing((ErrorKind::Extension, "OOM", oom).into()));
        assert!(passing((ErrorKind::Server(ServerErrorKind::ResponseError), "ERR", script).into()));
        assert!(passing((ErrorKind::Server(ServerErrorKind::BusyLoading), "LOADING").into()));
        assert!(!passing((ErrorKind::Server(ServerErrorKind::ResponseError), "ERR", "no".into()).into()));
    }

    #[test]
    fn a_connection_to_a_demoted_master_is_dropped() {
        let connector = Connector::new(&RedisConfig::default()).unwrap();
        let left =
            |error: RedisError| matches!(connector.error("testing", &error), StoreError::Unreachable { .. });
        let text = "You can't write against a read only replica.".to_string();
        let script = format!("Error running script (call to f_1): @user_script:3: -READONLY {text}");
        assert!(left((ErrorKind::Server(ServerErrorKind::ReadOnly), "READONLY", text).into()));
        assert!(left((ErrorKind::Server(ServerErrorKind::ResponseError), "ERR", script).into()));
    }
}

//! Connections to one server, to the master that Sentinels name, or to a cluster: shared ones for short requests, replaced when they break; separate ones for
//! blocking requests and for those that must not reconnect silently. Each request goes to the server of its keys.

mod address;
pub(super) mod args;
pub(super) mod check;
pub(super) mod config;
pub(super) mod durable;
pub(super) mod errors;
mod keys_of;
pub(super) mod one_slot;
pub(super) mod pubsub;
pub(super) mod replies;
mod routing;
mod server_state;
pub(super) mod servers;
pub(super) mod tls;
pub(super) mod wire_connection;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, ConnectionInfo, FromRedisValue, Pipeline, RedisConnectionInfo, RedisError, Script, Value};

use crate::store::StoreError;
pub(super) use args::{Arg, args};
pub(super) use errors::{is_cut_off, is_read_only};

use crate::store::redis::connection::address::{Address, Watched};
use crate::store::redis::connection::config::RedisConfig;
use crate::store::redis::connection::errors::explain;
use crate::store::redis::connection::routing::{Redirect, slot_of};
use crate::store::redis::connection::servers::{
    Cluster, Fixed, How, Lane, Node, One, Reach, Replayed, Sentinels, slot_of_request,
};
use crate::store::redis::connection::wire_connection::{Line, Replies, Request};
use crate::store::redis::keys::Keys;
use tidemill_base::hidden::masked_url;
use tidemill_base::ids::ShardId;

/// How often a script is loaded for one call, while its slot moves from server to server.
const LOADS_MAX: usize = 3;

/// Opens connections to the servers behind `redis.url`.
#[derive(Clone)]
pub(super) struct Connector {
    servers: Servers,
    /// The names of the namespace's keys, as they are on these servers.
    keys: Keys,
    /// The slot of the keys of the namespace.
    home: u16,
    /// The address without password, for messages.
    pub(super) address: Arc<str>,
}

#[derive(Clone)]
enum Servers {
    One(One),
    Cluster(Arc<Cluster>),
}

impl Connector {
    pub(super) fn new(config: &RedisConfig) -> Result<Self, StoreError> {
        let shown = masked_url(&config.url);
        let unusable = |reason: String| StoreError::Unusable(format!("redis.url {shown}: {reason}"));
        let address = Address::read(&config.url, &shown)?;
        let reach = Reach::new(config)?;
        let (servers, keys) = match address {
            Address::One(info) => {
                let node = Node::new(*info, &reach, &shown).map_err(|error| unusable(error.to_string()))?;
                (Servers::One(One::Fixed(Fixed::new(node))), Keys::new(&config.namespace))
            }
            Address::Sentinel(watched) => {
                let sentinels = watched_by(*watched, config, reach, &shown).map_err(unusable)?;
                (Servers::One(One::Watched(sentinels)), Keys::new(&config.namespace))
            }
            Address::Cluster(_) if config.namespace.contains(['{', '}']) => {
                let name = &config.namespace;
                return Err(unusable(format!(
                    "the namespace {name:?} has a brace, which decides the slot of a key in a cluster; set another \
                     redis.namespace"
                )));
            }
            Address::Cluster(seeds) => {
                let every = Duration::from_millis(config.cluster_refresh_ms.max(1));
                (
                    Servers::Cluster(Cluster::new(seeds, reach, &shown, every)),
                    Keys::on_cluster(&config.namespace),
                )
            }
        };
        Ok(Self { servers, keys, home: slot_of(config.namespace.as_bytes()), address: shown.into() })
    }

    /// The same servers with connections of their own. Those to a fixed address move together to the server that it leads to.
    ///
    /// # Errors
    /// Like [`Self::new`].
    pub(super) fn beside(&self, config: &RedisConfig) -> Result<Self, StoreError> {
        match &self.servers {
            Servers::One(One::Fixed(fixed)) => {
                Ok(Self { servers: Servers::One(One::Fixed(fixed.beside())), ..self.clone() })
            }
            Servers::One(One::Watched(_)) | Servers::Cluster(_) => Self::new(config),
        }
    }

    /// The names of the keys on these servers.
    pub(super) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The servers that have the keys: one, or all masters of the cluster.
    ///
    /// # Errors
    /// No server of the cluster says which ones these are.
    pub(super) async fn masters(&self) -> Result<Vec<Arc<Node>>, StoreError> {
        match &self.servers {
            Servers::One(one) => Ok(vec![one.node().await?]),
            Servers::Cluster(cluster) => cluster.masters().await,
        }
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    /// Whether the server of a key may be another one later.
    pub(super) fn may_move(&self) -> bool {
        !matches!(self.servers, Servers::One(One::Fixed(_)))
    }

    /// The Sentinels that name the master, if there are any.
    pub(super) fn sentinels(&self) -> Option<&Arc<Sentinels>> {
        match &self.servers {
            Servers::One(one) => one.sentinels(),
            Servers::Cluster(_) => None,
        }
    }

    /// The cluster, if it is one.
    pub(super) fn cluster(&self) -> Option<&Arc<Cluster>> {
        match &self.servers {
            Servers::One(_) => None,
            Servers::Cluster(cluster) => Some(cluster),
        }
    }

    /// The server that has this key at the moment.
    ///
    /// # Errors
    /// No server of the cluster says which one it is.
    pub(super) async fn server_of(&self, key: &str) -> Result<Arc<Node>, StoreError> {
        match &self.servers {
            Servers::One(one) => one.node().await,
            Servers::Cluster(cluster) => cluster.master_of(slot_of(key.as_bytes())).await,
        }
    }

    /// For each master of a cluster with neither a shard nor the keys of the namespace, the number of a shard that would be
    /// there. It may have keys of accounts, apps and datasets. Empty for one server.
    ///
    /// # Errors
    /// No server of the cluster says which ones there are.
    pub(super) async fn without_shards(&self, shards: u16) -> Result<Vec<ShardId>, StoreError> {
        let Servers::Cluster(cluster) = &self.servers else { return Ok(Vec::new()) };
        let slots = cluster.slots().await?;
        let master_of = |shard: u16| slots.owner(slot_of(self.keys.fence(ShardId(shard)).as_bytes()));
        let mut bare: BTreeSet<&str> = slots.masters().iter().map(String::as_str).collect();
        let used = (0..shards).filter_map(master_of).chain(slots.owner(self.home));
        for master in used {
            bare.remove(master);
        }
        let count = bare.len();
        let is_first = |shard: &u16| master_of(*shard).is_some_and(|master| bare.remove(master));
        Ok((shards..ShardId::COUNT_MAX).filter(is_first).take(count).map(ShardId).collect())
    }

    /// A server for subscriptions. The processes of a fleet take different ones, and none that does not answer.
    ///
    /// # Errors
    /// No server of the cluster says which ones there are.
    pub(super) async fn any_server(&self) -> Result<Arc<Node>, StoreError> {
        let mut masters = self.masters().await?;
        if let Servers::Cluster(cluster) = &self.servers
            && masters.iter().any(|node| !cluster.is_silent(node))
        {
            masters.retain(|node| !cluster.is_silent(node));
        }
        let at = usize::try_from(std::process::id()).unwrap_or(0) % masters.len().max(1);
        match masters.into_iter().nth(at) {
            Some(node) => Ok(node),
            None => self.server_of(&self.keys.meta()).await,
        }
    }

    /// The server that has the keys of the namespace.
    ///
    /// # Errors
    /// Like [`Self::server_of`].
    pub(super) async fn home(&self) -> Result<Arc<Node>, StoreError> {
        self.server_of(&self.keys.meta()).await
    }

    /// Opens a line to the server of this key: a connection with one user, whose replies are read in place.
    pub(super) async fn open_line(&self, key: &str) -> Result<Line, StoreError> {
        let node = self.server_of(key).await?;
        self.open_line_to(&node).await
    }

    /// Opens a line to this server, for as long as it is a master.
    pub(super) async fn open_line_to(&self, node: &Node) -> Result<Line, StoreError> {
        let cluster = match &self.servers {
            Servers::One(one) => return one.noted(node.open_line().await),
            Servers::Cluster(cluster) => cluster,
        };
        let line = node.open_line().await.inspect_err(|_| cluster.want_look())?;
        Ok(line.until(node.left()))
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
        let one = match &self.servers {
            Servers::One(one) => one,
            Servers::Cluster(cluster) => return cluster.ask_line(doing, request, read).await,
        };
        let node = one.node().await?;
        let mut line = one.noted(node.line().await)?;
        let answer = line.ask(request, Duration::ZERO).await;
        let answer = answer.and_then(read).map_err(|e| self.error(doing, &e));
        match &answer {
            Err(StoreError::Unreachable { .. }) => node.drop_lines(),
            _ => node.put_back(line),
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
        for _ in 0..LOADS_MAX {
            if let Some(answer) = self.ask_line(doing, request, known).await? {
                return Ok(answer);
            }
            self.load_for(doing, slot_of_request(request), script).await?;
        }
        self.ask_line(doing, request, |replies| read(replies.checked()?)).await
    }

    /// Loads a script at the server of a key.
    pub(super) async fn load(
        &self,
        doing: &'static str,
        key: &str,
        script: &Script,
    ) -> Result<(), StoreError> {
        self.load_for(doing, slot_of(key.as_bytes()), script).await
    }

    async fn load_for(&self, doing: &'static str, slot: u16, script: &Script) -> Result<(), StoreError> {
        match &self.servers {
            Servers::One(one) => {
                let node = one.node().await?;
                let mut connection = one.noted(node.shared(Lane::Short).await)?;
                let script = script.prepare_invoke();
                let loading = script.load_async(&mut connection);
                one.noted(node.answer(Lane::Short, doing, loading).await).map(drop)
            }
            Servers::Cluster(cluster) => cluster.load_for(doing, slot, script).await,
        }
    }

    /// Sends a command over the shared connection of its server.
    pub(super) async fn ask<T: FromRedisValue>(
        &self,
        doing: &'static str,
        command: &Cmd,
    ) -> Result<T, StoreError> {
        self.ask_in(Lane::Short, doing, command).await
    }

    /// Like [`Self::ask`], over the connection for large values.
    pub(super) async fn ask_in<T: FromRedisValue>(
        &self,
        lane: Lane,
        doing: &'static str,
        command: &Cmd,
    ) -> Result<T, StoreError> {
        if one_slot::IS_CHECKED {
            one_slot::check_command(&self.keys, doing, command);
        }
        match &self.servers {
            Servers::One(one) => {
                let node = one.node().await?;
                let mut connection = one.noted(node.shared(lane).await)?;
                one.noted(node.answer(lane, doing, command.query_async(&mut connection)).await)
            }
            Servers::Cluster(cluster) => {
                let mut pipe = Pipeline::with_capacity(1);
                pipe.add_command(command.clone());
                let answer = cluster.exchange(doing, &pipe, self.how(lane)).await.pop();
                let value = answer.unwrap_or(Ok(Value::Nil))?;
                let read = value.extract_error().and_then(|value| Ok(T::from_redis_value(value)?));
                read.map_err(|error| self.error(doing, &error))
            }
        }
    }

    /// Sends a command without keys to this server.
    pub(super) async fn ask_server<T: FromRedisValue>(
        &self,
        server: &Node,
        doing: &'static str,
        command: &Cmd,
    ) -> Result<T, StoreError> {
        let mut pipe = Pipeline::with_capacity(1);
        pipe.add_command(command.clone());
        let value = server.send(Lane::Short, doing, &pipe).await?.pop().unwrap_or(Value::Nil);
        let read = value.extract_error().and_then(|value| Ok(T::from_redis_value(value)?));
        read.map_err(|error| explain(server.address(), doing, &error))
    }

    /// Sends several commands at once. In a cluster they are split by server, so only those of one slot keep their order.
    pub(super) async fn ask_all<T: FromRedisValue>(
        &self,
        doing: &'static str,
        pipe: &Pipeline,
    ) -> Result<T, StoreError> {
        if one_slot::IS_CHECKED {
            one_slot::check_pipeline(&self.keys, doing, pipe);
        }
        match &self.servers {
            Servers::One(one) => {
                let node = one.node().await?;
                let mut connection = one.noted(node.shared(Lane::Short).await)?;
                one.noted(node.answer(Lane::Short, doing, pipe.query_async(&mut connection)).await)
            }
            Servers::Cluster(cluster) => {
                let answers = cluster.exchange(doing, pipe, self.how(Lane::Short)).await;
                let values: Vec<Value> = answers.into_iter().collect::<Result<_, _>>()?;
                pipe.query_async(&mut Replayed(values)).await.map_err(|error| self.error(doing, &error))
            }
        }
    }

    /// Sends several commands at once and returns the answer to each. A server of a cluster that does not answer soon
    /// fails its own part only.
    pub(super) async fn ask_each(
        &self,
        doing: &'static str,
        pipe: &Pipeline,
    ) -> Vec<Result<Value, StoreError>> {
        if one_slot::IS_CHECKED {
            one_slot::check_pipeline(&self.keys, doing, pipe);
        }
        let answers = match &self.servers {
            Servers::One(one) => {
                let sent = match one.node().await {
                    Ok(node) => one.noted(node.send(Lane::Short, doing, pipe).await),
                    Err(error) => Err(error),
                };
                match sent {
                    Ok(values) => values.into_iter().map(Ok).collect(),
                    Err(error) => (0..pipe.len()).map(|_| Err(error.clone())).collect(),
                }
            }
            Servers::Cluster(cluster) => {
                let how = How { is_partial: true, ..self.how(Lane::Short) };
                cluster.exchange(doing, pipe, how).await
            }
        };
        let explained = |answer: Result<Value, StoreError>| {
            answer.and_then(|value| value.extract_error().map_err(|error| self.error(doing, &error)))
        };
        answers.into_iter().map(explained).collect()
    }

    /// Like [`Self::ask_each`] for reads of groups of streams. `None` for a group that does not exist, and for keys on a
    /// server of a cluster that does not answer while others do.
    ///
    /// # Errors
    /// No server answers, or one gives another error.
    pub(super) async fn ask_some(
        &self,
        doing: &'static str,
        pipe: &Pipeline,
    ) -> Result<Vec<Option<Value>>, StoreError> {
        let answers = self.ask_each(doing, pipe).await;
        let is_any = answers.iter().any(Result::is_ok);
        let known = |answer| match answer {
            Ok(value) => Ok(Some(value)),
            Err(StoreError::Unexpected { reason, .. }) if reason.contains("NOGROUP") => Ok(None),
            Err(StoreError::Unreachable { .. } | StoreError::Refused { .. })
                if is_any && self.is_cluster() =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        };
        answers.into_iter().map(known).collect()
    }

    /// The answers of a pipeline, without those of servers of a cluster that do not answer while others do.
    ///
    /// # Errors
    /// No server answers, or one gives another error.
    pub(super) async fn ask_those<T: FromRedisValue>(
        &self,
        doing: &'static str,
        pipe: &Pipeline,
    ) -> Result<Vec<T>, StoreError> {
        let answers = self.ask_some(doing, pipe).await?;
        let read =
            |value| T::from_redis_value(value).map_err(|error| replies::unexpected(doing, error.to_string()));
        answers.into_iter().flatten().map(read).collect()
    }

    /// Runs a script at the server of its keys.
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
        let cluster = match &self.servers {
            Servers::One(one) => {
                let node = one.node().await?;
                let mut connection = one.noted(node.shared(Lane::Short).await)?;
                let mut call = script.prepare_invoke();
                keys.iter().for_each(|key| {
                    call.key(key);
                });
                args.iter().for_each(|arg| {
                    call.arg(arg.text());
                });
                let asked = call.invoke_async(&mut connection);
                return one.noted(node.answer(Lane::Short, doing, asked).await);
            }
            Servers::Cluster(cluster) => cluster,
        };
        let mut call = redis::cmd("EVALSHA");
        call.arg(script.get_hash()).arg(keys.len()).arg(keys);
        args.iter().for_each(|arg| {
            call.arg(arg.text());
        });
        for _ in 0..LOADS_MAX {
            match self.ask(doing, &call).await {
                Err(StoreError::Unexpected { reason, .. }) if reason.contains("NOSCRIPT") => {}
                answer => return answer,
            }
            let key = keys.first().map_or("", String::as_str);
            cluster.load_for(doing, slot_of(key.as_bytes()), script).await?;
        }
        self.ask(doing, &call).await
    }

    fn how(&self, lane: Lane) -> How {
        How { lane, home: self.home, is_partial: false }
    }

    /// Explains an error of a line. In a cluster, one that says where a slot is now helps the next request.
    pub(super) fn error(&self, doing: &'static str, error: &RedisError) -> StoreError {
        let explained = explain(&self.address, doing, error);
        let cluster = match &self.servers {
            Servers::One(one) => {
                one.doubt(&explained);
                return explained;
            }
            Servers::Cluster(cluster) => cluster,
        };
        match Redirect::of(error) {
            None => {
                if matches!(explained, StoreError::Unreachable { .. }) {
                    cluster.want_look();
                }
                return explained;
            }
            Some(Redirect::Moved { slot, address }) if !address.starts_with([':', '?']) => {
                cluster.note_moved(slot, &address);
            }
            Some(_) => cluster.want_look(),
        }
        StoreError::Refused { doing, reason: error.to_string() }
    }
}

/// The Sentinels of a master, with the user that they know this process by.
fn watched_by(
    watched: Watched,
    config: &RedisConfig,
    reach: Reach,
    shown: &str,
) -> Result<Arc<Sentinels>, String> {
    let mut who = RedisConnectionInfo::default().set_skip_set_lib_name();
    if !config.sentinel_user.is_empty() {
        who = who.set_username(&config.sentinel_user);
    }
    if !config.sentinel_password.is_empty() {
        who = who.set_password(config.sentinel_password.as_str());
    }
    let with_user = |sentinel: ConnectionInfo| sentinel.set_redis_settings(who.clone());
    let sentinels = watched.sentinels.into_iter().map(with_user).collect();
    let every = Duration::from_millis(config.sentinel_check_ms.max(1));
    Sentinels::new(&watched.name, watched.master, sentinels, reach, shown, every)
}

//! Ids: of runs, shards, frames, node executions, stream entries, blobs and job deliveries.
//!
//! Text is parsed into these types once, where it enters the process; from then on the compiler refuses a
//! swapped argument. Ids are derived where possible: an execution id follows from run, frame and node, so a
//! step that is computed a second time gets the same ids.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha1::{Digest, Sha1};
use uuid::{Builder, Uuid};

use crate::clock::{Clock, SystemClock};

/// The id of a version of an app that clients of Dify see as `workflow_id`: it follows from the names of both.
pub fn workflow_uuid(app: &str, version: &str) -> Uuid {
    named_uuid(&["workflow", app, version])
}

/// A UUID from names, the same in every process. Only the last of them may be any text; the others have no slash.
pub fn named_uuid(names: &[&str]) -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("tidemill/{}", names.join("/")).as_bytes())
}

/// The error for text that is not a valid id of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {what}: {expected}")]
pub struct IdError {
    /// The kind of id that was expected.
    pub what: &'static str,
    /// The given text, cut to 80 characters.
    pub text: String,
    /// A description of the valid form.
    pub expected: &'static str,
}

impl IdError {
    /// An error about `text`, of which the first 80 characters are kept.
    pub fn new(what: &'static str, text: &str, expected: &'static str) -> Self {
        Self { what, text: text.chars().take(80).collect(), expected }
    }
}

/// One slice of all runs, owned by one scheduler at a time. 0 to 16383, since a run id stores it in 14 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ShardId(pub u16);

impl ShardId {
    /// The highest number of shards of a namespace.
    pub const COUNT_MAX: u16 = 1 << 14;
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The id of one execution of a workflow version: a version-7 UUID whose last 14 bits are its shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(Uuid);

impl RunId {
    /// Builds an id from Unix milliseconds, 74 random bits and a shard.
    pub fn new(unix_ms: u64, random: u128, shard: ShardId) -> Self {
        let random = (random & !u128::from(ShardId::COUNT_MAX - 1)) | u128::from(shard.0);
        let bytes = random.to_be_bytes();
        let mut tail = [0u8; 10];
        tail.copy_from_slice(&bytes[6..]);
        Self(uuid::Builder::from_unix_timestamp_millis(unix_ms, &tail).into_uuid())
    }

    /// Returns a new id for `shard`, from the system clock and system randomness; for callers outside the
    /// engine.
    pub fn generate(shard: ShardId) -> Self {
        let now = SystemClock.now().millis().max(0).unsigned_abs();
        Self::new(now, Uuid::new_v4().as_u128(), shard)
    }

    /// Derives the id of the sub-workflow run that journal entry `step` of an execution starts in attempt
    /// `number`. It is on this run's shard and does not change when the entry is repeated.
    #[must_use]
    pub fn called_by(&self, execution: &ExecutionId, step: &str, number: u32) -> Self {
        let name = name_based(&execution.0, ["call/", step, "/", itoa::Buffer::new().format(number)]);
        // The time in the id is the parent run's: the engine must not read a clock here.
        let millis = self.0.as_bytes()[..6].iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
        // The shard overwrites the last bits of the name-based id; the bits before them suffice.
        Self::new(millis, name.as_u128(), self.shard())
    }

    /// Returns the shard of the run, which the id contains.
    pub fn shard(&self) -> ShardId {
        let bytes = self.0.as_bytes();
        ShardId(u16::from_be_bytes([bytes[14], bytes[15]]) & (ShardId::COUNT_MAX - 1))
    }

    /// Returns the id as a UUID.
    pub fn uuid(&self) -> Uuid {
        self.0
    }

    /// Returns a buffer for [`Self::encode`].
    pub const fn buffer() -> [u8; 36] {
        [0; 36]
    }

    /// Writes the id into `buffer`, without an allocation.
    pub fn encode<'a>(&self, buffer: &'a mut [u8; 36]) -> &'a str {
        self.0.hyphenated().encode_lower(buffer)
    }
}

impl FromStr for RunId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        Uuid::try_parse(text)
            .map(Self)
            .map_err(|_| IdError::new("run id", text, "a UUID such as 0199c0de-0000-7000-8000-000000000001"))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}
impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunId({self})")
    }
}
impl Serialize for RunId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The id of a node, as in the workflow file. In the name of a variable also `sys`, `env` and the like. Cheap
/// to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(Arc<str>);

impl NodeId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// Returns the id as a part of a key, with `%`, `/` and `.` escaped.
    pub fn in_key(&self) -> Cow<'_, str> {
        in_key(&self.0)
    }
}

/// Escapes a name for use as a part of a key, in which `/` and `.` separate parts.
pub fn in_key(name: &str) -> Cow<'_, str> {
    // Nearly all bytes are letters and digits, which the first comparison tells apart.
    if name.bytes().any(|byte| byte <= b'/' && matches!(byte, b'%' | b'/' | b'.')) {
        name.replace('%', "%25").replace('/', "%2F").replace('.', "%2E").into()
    } else {
        name.into()
    }
}
impl From<&str> for NodeId {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}
impl From<String> for NodeId {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}
impl std::borrow::Borrow<str> for NodeId {
    fn borrow(&self) -> &str {
        &self.0
    }
}
impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

/// The id of a frame, which is one execution of a graph body: empty for the root, else for example
/// `iter1#3/loop1#0`.
///
/// The root is `None`, since nearly every node is in it and an empty path costs nothing to copy and compare.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FramePath(Option<Arc<str>>);

impl FramePath {
    /// The frame in which every run starts.
    pub const fn root() -> Self {
        Self(None)
    }
    /// True for the root frame.
    pub fn is_root(&self) -> bool {
        self.0.is_none()
    }
    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
    /// Returns the frame of one item or round (from 0) of a container in this frame.
    #[must_use]
    pub fn child(&self, container: &NodeId, index: u32) -> Self {
        let mut path = String::with_capacity(self.as_str().len() + container.as_str().len() + 8);
        if let Some(outer) = &self.0 {
            path.push_str(outer);
            path.push('/');
        }
        path.push_str(&escaped(container.as_str()));
        path.push('#');
        path.push_str(&index.to_string());
        Self(Some(path.into()))
    }
    /// Returns the frame that holds this frame's container. The parent of the root is the root.
    #[must_use]
    pub fn parent(&self) -> Self {
        self.as_str().rsplit_once('/').map_or_else(Self::root, |(parent, _)| parent.into())
    }
    /// Returns the container's id and the number of the item or round; `None` for the root.
    pub fn last(&self) -> Option<(Cow<'_, str>, u32)> {
        let last = self.as_str().rsplit_once('/').map_or(self.as_str(), |(_, last)| last);
        let (container, index) = last.rsplit_once('#')?;
        Some((unescaped(container), index.parse().ok()?))
    }
    /// Iterates over this frame and its parents, innermost first, without the root.
    pub fn outwards(&self) -> impl Iterator<Item = Self> {
        let first = (!self.is_root()).then(|| self.clone());
        std::iter::successors(first, |path| Some(path.parent()).filter(|parent| !parent.is_root()))
    }
    /// True when `other` is inside this frame, at any depth.
    pub fn encloses(&self, other: &Self) -> bool {
        if self.is_root() {
            return !other.is_root();
        }
        other.as_str().strip_prefix(self.as_str()).is_some_and(|rest| rest.starts_with('/'))
    }
}

/// Escapes a node's id for a path: the separators `/` and `#`, and `%` itself.
fn escaped(id: &str) -> Cow<'_, str> {
    if id.contains(['%', '/', '#']) {
        id.replace('%', "%25").replace('/', "%2F").replace('#', "%23").into()
    } else {
        id.into()
    }
}

fn unescaped(id: &str) -> Cow<'_, str> {
    if id.contains('%') {
        id.replace("%23", "#").replace("%2F", "/").replace("%25", "%").into()
    } else {
        id.into()
    }
}
impl From<&str> for FramePath {
    fn from(text: &str) -> Self {
        Self((!text.is_empty()).then(|| text.into()))
    }
}
impl Serialize for FramePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
impl<'de> Deserialize<'de> for FramePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Cow::<str>::deserialize(deserializer)?.as_ref().into())
    }
}
impl fmt::Display for FramePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
impl fmt::Debug for FramePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

/// The id of one node in one frame, shared by all its attempts: a version-5 UUID of run, frame path and node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExecutionId(Uuid);

/// Returns the same UUID as `Uuid::new_v5`. This one uses the SHA instructions of the processor where
/// available: each step of a run derives several ids.
fn name_based<const PARTS: usize>(namespace: &Uuid, name: [&str; PARTS]) -> Uuid {
    let hash = Sha1::new().chain_update(namespace.as_bytes());
    let hash = name.iter().fold(hash, |hash, part| hash.chain_update(part)).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    Builder::from_sha1_bytes(bytes).into_uuid()
}

impl ExecutionId {
    /// Derives the only id that this node execution can have.
    pub fn derive(run: &RunId, frame: &FramePath, node: &NodeId) -> Self {
        // The run id is itself the namespace, so the name does not contain it.
        Self(name_based(&run.0, [frame.as_str(), "/", node.as_str()]))
    }

    /// Returns a buffer for [`Self::encode`].
    pub const fn buffer() -> [u8; 36] {
        [0; 36]
    }

    /// Writes the id into `buffer`, without an allocation.
    pub fn encode<'a>(&self, buffer: &'a mut [u8; 36]) -> &'a str {
        self.0.hyphenated().encode_lower(buffer)
    }
}
impl FromStr for ExecutionId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        Uuid::try_parse(text).map(Self).map_err(|_| IdError::new("execution id", text, "a UUID"))
    }
}
impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}
impl fmt::Debug for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExecutionId({self})")
    }
}

/// The id of a stream entry, `<number>-<index>`. Entries that a commit writes carry the commit's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntryId {
    /// The part before the dash: milliseconds for entries numbered by Redis, the commit's number for ours.
    pub major: u64,
    /// The part after the dash.
    pub minor: u64,
}

impl EntryId {
    /// The id before every entry.
    pub const ZERO: Self = Self { major: 0, minor: 0 };
    /// Builds an id from its two parts.
    pub const fn new(major: u64, minor: u64) -> Self {
        Self { major, minor }
    }
}
impl FromStr for EntryId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let wrong = || IdError::new("stream entry id", text, "two numbers such as 1754339718571-0");
        // One pass, digit by digit: each fact contains two of these ids.
        let (mut parts, mut at, mut begin) = ([0u64; 2], 0, 0);
        for (place, byte) in text.bytes().enumerate() {
            if byte == b'-' && at == 0 && place > 0 {
                (at, begin) = (1, place + 1);
                continue;
            }
            if !byte.is_ascii_digit() {
                return Err(wrong());
            }
            let digit = u64::from(byte - b'0');
            parts[at] =
                parts[at].checked_mul(10).and_then(|number| number.checked_add(digit)).ok_or_else(wrong)?;
        }
        if begin == text.len() {
            return Err(wrong());
        }
        Ok(Self { major: parts[0], minor: parts[1] })
    }
}
impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.major, self.minor)
    }
}
impl fmt::Debug for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EntryId({self})")
    }
}
impl Serialize for EntryId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for EntryId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The name of a blob; never used twice.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlobId(Arc<str>);

impl BlobId {
    /// Returns a new name, from system randomness; for workers and the API, never for the engine.
    pub fn generate() -> Self {
        Self(Uuid::now_v7().simple().to_string().into())
    }
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
impl From<&str> for BlobId {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}
impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlobId({self})")
    }
}

/// One delivery of a job: the consumer that holds it, and the delivery number.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Delivery {
    /// The consumer name; each start of a worker has its own.
    pub consumer: Arc<str>,
    /// 1 for the first delivery, 1 more for each take-over, and [`Self::HAND_BACK`] more after a hand-back.
    /// The later of two holders always has the higher number.
    pub number: u32,
}

impl Delivery {
    /// The increment after a hand-back. The delivery does not count against the limit, but its number differs
    /// from all others.
    pub const HAND_BACK: u32 = 1000;

    /// Returns the number of deliveries that count against the limit: all that did not end in a hand-back.
    pub const fn counted(&self) -> u32 {
        Self::counted_of(self.number)
    }
    /// As [`Self::counted`], for a bare number.
    pub const fn counted_of(number: u32) -> u32 {
        number % Self::HAND_BACK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_executions_are_uuids_of_version_5() {
        let run = RunId::new(1_754_339_718_571, 7, ShardId(3));
        let long = "n".repeat(500);
        for (frame, node) in [("", "llm"), ("it#3/lp#0", "1754339718571"), ("it#3", long.as_str())] {
            let derived = ExecutionId::derive(&run, &FramePath::from(frame), &NodeId::from(node.to_string()));
            let name = format!("{frame}/{node}");
            assert_eq!(derived, ExecutionId(Uuid::new_v5(&run.0, name.as_bytes())));
        }
    }

    #[test]
    fn a_run_id_names_its_shard_and_moment() {
        for shard in [0u16, 1, 7, 4095, 16383] {
            let id = RunId::new(1_754_339_718_571, u128::MAX, ShardId(shard));
            assert_eq!(id.shard(), ShardId(shard));
            assert_eq!(id.uuid().get_version_num(), 7);
            assert_eq!(id.to_string().parse::<RunId>(), Ok(id));
        }
    }

    #[test]
    fn an_execution_id_follows_from_run_frame_and_node() {
        let run = RunId::new(1, 2, ShardId(3));
        let a = ExecutionId::derive(&run, &FramePath::root(), &"llm".into());
        assert_eq!(a, ExecutionId::derive(&run, &FramePath::root(), &"llm".into()));
        assert_ne!(a, ExecutionId::derive(&run, &"it#0".into(), &"llm".into()));
    }

    #[test]
    fn a_frame_path_names_every_container_on_the_way() {
        let path = FramePath::root().child(&"it/#1".into(), 3).child(&"lp".into(), 0);
        assert_eq!(path.as_str(), "it%2F%231#3/lp#0");
        assert_eq!(path.last(), Some(("lp".into(), 0)));
        assert_eq!(path.parent().last(), Some(("it/#1".into(), 3)));
        assert_eq!(path.parent().parent(), FramePath::root());
        let around: Vec<_> = path.outwards().map(|p| p.to_string()).collect();
        assert_eq!(around, ["it%2F%231#3/lp#0", "it%2F%231#3"]);
        assert!(path.parent().encloses(&path) && FramePath::root().encloses(&path));
        assert!(!FramePath::from("it#1").encloses(&"it#10".into()) && !path.encloses(&path));
        assert!(
            FramePath::root() < path.parent()
                && path.parent() < path
                && FramePath::from("") == FramePath::root()
        );
        for (path, text) in [(path, r#""it%2F%231#3/lp#0""#), (FramePath::root(), r#""""#)] {
            assert_eq!(serde_json::to_string(&path).unwrap(), text);
            assert_eq!(serde_json::from_str::<FramePath>(text).unwrap(), path);
        }
    }

    #[test]
    fn entry_ids_order_by_both_halves_and_refuse_other_text() {
        let id: EntryId = "12-3".parse().unwrap();
        assert!(id < "12-4".parse().unwrap() && id < "13-0".parse().unwrap());
        assert_eq!("12".parse(), Ok(EntryId::new(12, 0)));
        for wrong in
            ["", "-", "-1", "a-b", "1-", "1-2-3", "é-1", "1é-1", "١-0", "+1-0", "99999999999999999999-0"]
        {
            assert!(wrong.parse::<EntryId>().is_err(), "{wrong}");
        }
    }
}

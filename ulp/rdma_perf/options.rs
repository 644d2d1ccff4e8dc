// SPDX-License-Identifier: GPL-2.0

//! Options of a run, parsed from the `KEY=VALUE` pairs that are written to the file `run`.
//!
//! Where the two ends are in different kernels, the client sends the options in [`SHARED_KEYS`] to the server.
//!
//! This module does not use the kernel crate; `tools/testing/host/rdma_perf` tests it.

use core::net::IpAddr;

/// The operation that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// SEND.
    Send,
    /// RDMA WRITE.
    Write,
    /// RDMA READ.
    Read,
    /// Atomic fetch and add.
    FetchAdd,
    /// Atomic compare and swap.
    CompareSwap,
}

/// The traffic pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// The client keeps `depth` operations outstanding on each queue pair.
    Stream,
    /// The server responds to each message with one; the latency is that of the round trip.
    PingPong,
}

/// The context in which the client posts, and polls if `poll=direct`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostContext {
    /// A thread.
    Thread,
    /// A thread that holds a spin lock with interrupts off.
    Locked,
    /// A softirq.
    SoftIrq,
    /// A hard interrupt.
    Interrupt,
    /// The handler of the previous completion, in whichever context that runs.
    Handler,
}

/// Who polls the completion queue, as `enum ib_poll_context`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// The client itself.
    Direct,
    /// A softirq.
    SoftIrq,
    /// A work item on the CPU of the completion interrupt.
    WorkQueue,
    /// A work item on any CPU.
    Unbound,
}

/// An option whose values have names.
pub trait ValueEnum: Sized + Copy + PartialEq + 'static {
    /// Each value with its name.
    const NAMES: &'static [(&'static str, Self)];

    /// The value with that name.
    fn parse(text: &str) -> Option<Self> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text)?;
        Some(found.1)
    }

    /// The name of the value.
    fn name(self) -> &'static str {
        let found = Self::NAMES.iter().find(|(_, value)| *value == self);
        found.map_or("", |(name, _)| name)
    }
}

macro_rules! value_enums {
    ($($ty:ident { $($name:literal => $variant:ident,)* })*) => {$(
        impl ValueEnum for $ty {
            const NAMES: &'static [(&'static str, Self)] = &[$(($name, Self::$variant)),*];
        }
    )*};
}
value_enums! {
    Op {
        "send" => Send,
        "write" => Write,
        "read" => Read,
        "fetch_add" => FetchAdd,
        "cmp_swap" => CompareSwap,
    }
    Pattern {
        "stream" => Stream,
        "pingpong" => PingPong,
    }
    PostContext {
        "thread" => Thread,
        "locked" => Locked,
        "softirq" => SoftIrq,
        "interrupt" => Interrupt,
        "handler" => Handler,
    }
    Poll {
        "direct" => Direct,
        "softirq" => SoftIrq,
        "workqueue" => WorkQueue,
        "unbound" => Unbound,
    }
}

impl Op {
    /// Whether the operation is an atomic one.
    pub fn is_atomic(self) -> bool {
        matches!(self, Self::FetchAdd | Self::CompareSwap)
    }

    /// Whether the operation accesses the server's memory.
    pub fn is_remote(self) -> bool {
        self != Self::Send
    }
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// After that number of operations.
    Iterations(u64),
    /// After that number of seconds.
    Seconds(u32),
}

/// The name of a device, or no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; Self::MAX],
    length: usize,
}

impl Name {
    /// `IB_DEVICE_NAME_MAX`, less the NUL.
    const MAX: usize = 63;
    const NONE: Self = Self {
        bytes: [0; Self::MAX],
        length: 0,
    };

    /// A name. `None` for bytes that are no valid device name.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut name = Self::NONE;
        let is_good = |byte: &u8| byte.is_ascii_graphic() && *byte != b'/';
        if bytes.is_empty() || !bytes.iter().all(is_good) {
            return None;
        }
        name.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        name.length = bytes.len();
        Some(name)
    }

    /// The bytes of the name. `None` if there is no name.
    pub fn bytes(&self) -> Option<&[u8]> {
        let bytes = self.bytes.get(..self.length)?;
        (!bytes.is_empty()).then_some(bytes)
    }
}

/// The options of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The client's device.
    pub client: Name,
    /// The server's device. The default is the client's.
    pub server: Name,
    /// The index of the client's GID.
    pub client_gid: u16,
    /// The index of the server's GID.
    pub server_gid: u16,
    /// The operation.
    pub op: Op,
    /// The traffic pattern.
    pub pattern: Pattern,
    /// Bytes of an operation.
    pub size: u32,
    /// Outstanding operations of a queue pair.
    pub depth: u32,
    /// The number of queue pairs.
    pub qps: u32,
    /// When the run ends.
    pub limit: Limit,
    /// The context in which the client posts.
    pub post: PostContext,
    /// Who polls the completion queue: `enum ib_poll_context`.
    pub poll: Poll,
    /// The path MTU, in bytes.
    pub mtu: u32,
    /// Whether received data is compared with the data sent.
    pub verify: bool,
    /// The IP address on which the server listens; an option of the client.
    pub address: Option<IpAddr>,
    /// The port on which the server listens.
    pub port: u16,
}

/// The maximum length of the text.
pub const MAX_TEXT: usize = 512;
/// The maximum size of an operation.
pub const MAX_SIZE: u32 = 1 << 20;
/// The maximum number of outstanding operations of a queue pair.
pub const MAX_DEPTH: u32 = 256;
/// The maximum number of queue pairs.
pub const MAX_QPS: u32 = 64;
/// The maximum number of outstanding operations of all queue pairs.
pub const MAX_OUTSTANDING: u32 = 4096;
/// The maximum number of bytes of all outstanding operations.
pub const MAX_MEMORY: u64 = 64 << 20;
/// The maximum number of operations of a run.
pub const MAX_ITERATIONS: u64 = 1_000_000_000;
/// The maximum duration of a run.
pub const MAX_SECONDS: u32 = 3600;

const ATOMIC_SIZE: u32 = 8;
const MIN_MTU: u32 = 256;
const MAX_MTU: u32 = 4096;
const DEFAULT_MTU: u32 = 1024;
const DEFAULT_SIZE: u32 = 64;
const DEFAULT_DEPTH: u32 = 32;
const DEFAULT_ITERATIONS: u64 = 1000;
const DEFAULT_PORT: u16 = 18530;

/// All keys, in the order of their bits in [`KeySet`].
pub const KEYS: [&str; 17] = [
    "client",
    "server",
    "client_gid",
    "server_gid",
    "op",
    "pattern",
    "size",
    "depth",
    "qps",
    "iterations",
    "seconds",
    "post",
    "poll",
    "mtu",
    "verify",
    "address",
    "port",
];

/// The keys of a run with both ends in this kernel.
pub const BOTH_KEYS: &[&str] = KEYS.split_at(15).0;

/// The keys of the options that the client sends to the server, because both must use the same value.
pub const SHARED_KEYS: &[&str] = &["op", "pattern", "size", "depth", "qps", "mtu", "verify"];

/// A set of keys: those that the text contains.
struct KeySet(u32);

impl KeySet {
    /// The set of [`SHARED_KEYS`].
    fn shared() -> Self {
        let bits = SHARED_KEYS.iter().filter_map(|key| Self::bit(key));
        Self(bits.fold(0, |all, bit| all | bit))
    }

    fn bit(key: &str) -> Option<u32> {
        let position = KEYS.iter().position(|known| *known == key)?;
        Some(1 << position)
    }

    /// Adds a key. `None` if it is unknown or is in the set already.
    fn add(&mut self, key: &str) -> Option<()> {
        let bit = Self::bit(key)?;
        if self.0 & bit != 0 {
            return None;
        }
        self.0 |= bit;
        Some(())
    }

    fn has(&self, key: &str) -> bool {
        Self::bit(key).is_some_and(|bit| self.0 & bit != 0)
    }
}

/// Parses `KEY=VALUE` pairs one by one.
pub struct Reader {
    options: Options,
    keys: KeySet,
}

impl Reader {
    /// A reader that has read no pair.
    #[expect(clippy::new_without_default, reason = "`new` says that it is empty")]
    pub fn new() -> Self {
        Self {
            options: Options::default(),
            keys: KeySet(0),
        }
    }

    /// Reads a pair. `None` if the key or the value is invalid, or the key was read before.
    pub fn add(&mut self, key: &str, value: &str) -> Option<()> {
        self.keys.add(key)?;
        self.options.set(key, value)
    }

    /// Whether the key was read.
    pub fn has(&self, key: &str) -> bool {
        self.keys.has(key)
    }

    /// The options. `None` if they contradict each other.
    pub fn finish(self) -> Option<Options> {
        self.options.fit(&self.keys)
    }
}

/// The number of bytes that encode the shared options.
pub const SHARED_LENGTH: usize = 16;

/// The index of a value in the table of its names.
fn code<T: ValueEnum>(value: T) -> u8 {
    let found = T::NAMES.iter().position(|(_, known)| *known == value);
    found
        .and_then(|index| u8::try_from(index).ok())
        .unwrap_or(u8::MAX)
}

/// The value at an index of the table of names.
fn from_code<T: ValueEnum>(code: u8) -> Option<T> {
    T::NAMES.get(usize::from(code)).map(|(_, value)| *value)
}

fn within(value: u32, high: u32) -> Option<u32> {
    (1..=high).contains(&value).then_some(value)
}

impl Default for Options {
    fn default() -> Self {
        Self {
            client: Name::NONE,
            server: Name::NONE,
            client_gid: 0,
            server_gid: 0,
            op: Op::Send,
            pattern: Pattern::Stream,
            size: DEFAULT_SIZE,
            depth: DEFAULT_DEPTH,
            qps: 1,
            limit: Limit::Iterations(DEFAULT_ITERATIONS),
            post: PostContext::Thread,
            poll: Poll::SoftIrq,
            mtu: DEFAULT_MTU,
            verify: false,
            address: None,
            port: DEFAULT_PORT,
        }
    }
}

/// A number of decimal digits, from `low` to `high`. `None` for anything else, as signs, blanks and prefixes.
fn number(text: &str, low: u64, high: u64) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value = text.parse().ok()?;
    (low..=high).contains(&value).then_some(value)
}

fn small(text: &str, low: u32, high: u32) -> Option<u32> {
    u32::try_from(number(text, low.into(), high.into())?).ok()
}

fn index(text: &str) -> Option<u16> {
    u16::try_from(number(text, 0, u16::MAX.into())?).ok()
}

impl Options {
    /// Parses text whose keys are all in `keys`. `None` for an unknown key or an invalid value, a repeated key, and
    /// values that contradict each other.
    pub fn parse(text: &[u8], keys: &[&str]) -> Option<Self> {
        let text = core::str::from_utf8(text).ok()?;
        if text.len() > MAX_TEXT {
            return None;
        }
        let mut reader = Reader::new();
        for pair in text.split_ascii_whitespace() {
            let (key, value) = pair.split_once('=')?;
            if !keys.contains(&key) {
                return None;
            }
            reader.add(key, value)?;
        }
        reader.finish()
    }

    /// These options with the shared ones of the client, `theirs`.
    pub fn with_shared_of(self, theirs: &Self) -> Self {
        Self {
            op: theirs.op,
            pattern: theirs.pattern,
            size: theirs.size,
            depth: theirs.depth,
            qps: theirs.qps,
            mtu: theirs.mtu,
            verify: theirs.verify,
            ..self
        }
    }

    /// Encodes the shared options, except for the MTU.
    pub fn shared_bytes(&self) -> [u8; SHARED_LENGTH] {
        let [op, pattern] = [code(self.op), code(self.pattern)];
        let [size, depth, qps] = [self.size, self.depth, self.qps].map(u32::to_be_bytes);
        let mut bytes = [0; SHARED_LENGTH];
        let head = [op, pattern, self.verify.into(), 0];
        let all = head.into_iter().chain(size).chain(depth).chain(qps);
        bytes.iter_mut().zip(all).for_each(|(to, from)| *to = from);
        bytes
    }

    /// Decodes the shared options; the others have their defaults. `None` for values that are invalid or contradict each other.
    pub fn from_shared_bytes(bytes: [u8; SHARED_LENGTH]) -> Option<Self> {
        let [op, pattern, verify, 0, numbers @ ..] = bytes else {
            return None;
        };
        let [a, b, c, d, e, f, g, h, i, j, k, l] = numbers;
        let options = Self {
            op: from_code(op)?,
            pattern: from_code(pattern)?,
            verify: (verify <= 1).then_some(verify == 1)?,
            size: within(u32::from_be_bytes([a, b, c, d]), MAX_SIZE)?,
            depth: within(u32::from_be_bytes([e, f, g, h]), MAX_DEPTH)?,
            qps: within(u32::from_be_bytes([i, j, k, l]), MAX_QPS)?,
            ..Self::default()
        };
        let fits = options.fit(&KeySet::shared())?;
        (fits == options).then_some(options)
    }

    fn set(&mut self, key: &str, value: &str) -> Option<()> {
        match key {
            "client" => self.client = Name::new(value.as_bytes())?,
            "server" => self.server = Name::new(value.as_bytes())?,
            "client_gid" => self.client_gid = index(value)?,
            "server_gid" => self.server_gid = index(value)?,
            "op" => self.op = Op::parse(value)?,
            "pattern" => self.pattern = Pattern::parse(value)?,
            "size" => self.size = small(value, 1, MAX_SIZE)?,
            "depth" => self.depth = small(value, 1, MAX_DEPTH)?,
            "qps" => self.qps = small(value, 1, MAX_QPS)?,
            "iterations" => self.limit = Limit::Iterations(number(value, 1, MAX_ITERATIONS)?),
            "seconds" => self.limit = Limit::Seconds(small(value, 1, MAX_SECONDS)?),
            "post" => self.post = PostContext::parse(value)?,
            "poll" => self.poll = Poll::parse(value)?,
            "mtu" => {
                self.mtu = small(value, MIN_MTU, MAX_MTU).filter(|mtu| mtu.is_power_of_two())?
            }
            "verify" => self.verify = number(value, 0, 1)? == 1,
            "address" => self.address = Some(value.parse().ok()?),
            "port" => self.port = index(value).filter(|port| *port != 0)?,
            _ => return None,
        }
        Some(())
    }

    /// Sets the defaults that depend on other options. `None` if options contradict each other.
    fn fit(mut self, keys: &KeySet) -> Option<Self> {
        if keys.has("iterations") && keys.has("seconds") {
            return None;
        }
        if self.op.is_atomic() {
            if keys.has("size") && self.size != ATOMIC_SIZE {
                return None;
            }
            self.size = ATOMIC_SIZE;
        }
        if self.pattern == Pattern::PingPong {
            if self.op != Op::Send || (keys.has("depth") && self.depth != 1) {
                return None;
            }
            self.depth = 1;
        }
        if self.server.bytes().is_none() {
            self.server = self.client;
        }
        let outstanding = self.depth.saturating_mul(self.qps);
        let memory = u64::from(outstanding).saturating_mul(self.size.into());
        (outstanding <= MAX_OUTSTANDING && memory <= MAX_MEMORY).then_some(self)
    }
}

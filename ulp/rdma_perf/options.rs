// SPDX-License-Identifier: GPL-2.0

//! What a run is to be like: words `KEY=VALUE`, as they are written to the file `run`.
//!
//! Where the ends are in two kernels, the client says what is to be done, its [`TERMS`], and the server learns that from it.
//!
//! No kernel in here: `tools/testing/host/rdma_perf` tests it.

use core::net::IpAddr;

/// What is asked of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A message.
    Send,
    /// Bytes are written to the peer's memory.
    Write,
    /// Bytes of the peer's memory are read.
    Read,
    /// A number in the peer's memory is added to.
    FetchAdd,
    /// A number in the peer's memory is replaced, if it is the one that is expected.
    CompareSwap,
}

/// In which order operations are begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// The client keeps as many under way as the depth says.
    Stream,
    /// The server answers each message with one; latencies are those of both ways.
    PingPong,
}

/// Where the client posts and, where that is for it to do, polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a thread.
    Thread,
    /// In a thread, under a spin lock with interrupts off.
    Locked,
    /// In a softirq.
    SoftIrq,
    /// In a hard interrupt.
    Interrupt,
    /// In the handler of the completion before, wherever that runs.
    Handler,
}

/// Who takes completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// The client.
    Direct,
    /// A softirq.
    SoftIrq,
    /// A work item, on the CPU where completions are announced.
    WorkQueue,
    /// A work item, on any CPU.
    Unbound,
}

/// A value that is one of some words.
pub trait Word: Sized + Copy + PartialEq + 'static {
    /// The words, and what each stands for.
    const WORDS: &'static [(&'static str, Self)];

    /// The value for a word.
    fn parse(text: &str) -> Option<Self> {
        let found = Self::WORDS.iter().find(|(word, _)| *word == text)?;
        Some(found.1)
    }

    /// The word for the value.
    fn word(self) -> &'static str {
        let found = Self::WORDS.iter().find(|(_, value)| *value == self);
        found.map_or("", |(word, _)| word)
    }
}

macro_rules! words {
    ($($ty:ident { $($word:literal => $variant:ident,)* })*) => {$(
        impl Word for $ty {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$variant)),*];
        }
    )*};
}
words! {
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
    Place {
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
    /// Whether eight bytes are changed at once.
    pub fn is_atomic(self) -> bool {
        matches!(self, Self::FetchAdd | Self::CompareSwap)
    }

    /// Whether the peer's memory is used.
    pub fn is_remote(self) -> bool {
        self != Self::Send
    }
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// After so many operations.
    Iterations(u64),
    /// After so many seconds.
    Seconds(u32),
}

/// The name of a device: empty where none was named.
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

    /// A name. `None` for what no device is called.
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

    /// The bytes of the name. `None` where none was named.
    pub fn bytes(&self) -> Option<&[u8]> {
        let bytes = self.bytes.get(..self.length)?;
        (!bytes.is_empty()).then_some(bytes)
    }
}

/// What a run is to be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The client's device.
    pub client: Name,
    /// The server's device: where none is named it is the client's.
    pub server: Name,
    /// The index of the client's GID.
    pub client_gid: u16,
    /// The index of the server's GID.
    pub server_gid: u16,
    /// What is asked of the server.
    pub op: Op,
    /// In which order.
    pub pattern: Pattern,
    /// How many bytes an operation is about.
    pub size: u32,
    /// How many operations of a queue pair are under way.
    pub depth: u32,
    /// How many queue pairs there are.
    pub qps: u32,
    /// When the run ends.
    pub limit: Limit,
    /// Where the client posts.
    pub post: Place,
    /// Who takes completions.
    pub poll: Poll,
    /// The MTU of the path, in bytes.
    pub mtu: u32,
    /// Data is compared with what was sent.
    pub verify: bool,
    /// Where the server listens, for the client.
    pub address: Option<IpAddr>,
    /// The port there.
    pub port: u16,
}

/// The longest text that is understood.
pub const MAX_TEXT: usize = 512;
/// The largest operation.
pub const MAX_SIZE: u32 = 1 << 20;
/// The most operations of a queue pair.
pub const MAX_DEPTH: u32 = 256;
/// The most queue pairs.
pub const MAX_QPS: u32 = 64;
/// The most operations that are under way at a time.
pub const MAX_UNDER_WAY: u32 = 4096;
/// What all operations that are under way may be about.
pub const MAX_MEMORY: u64 = 64 << 20;
/// The most operations of a run.
pub const MAX_ITERATIONS: u64 = 1_000_000_000;
/// The longest run.
pub const MAX_SECONDS: u32 = 3600;

const ATOMIC_SIZE: u32 = 8;
const MIN_MTU: u32 = 256;
const MAX_MTU: u32 = 4096;
const DEFAULT_MTU: u32 = 1024;
const DEFAULT_SIZE: u32 = 64;
const DEFAULT_DEPTH: u32 = 32;
const DEFAULT_ITERATIONS: u64 = 1000;
const DEFAULT_PORT: u16 = 18530;

/// All keys, in the order of their bits in [`Given`].
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
pub const BOTH: &[&str] = KEYS.split_at(15).0;

/// What the client says to the server: the keys of what both must know.
pub const TERMS: &[&str] = &["op", "pattern", "size", "depth", "qps", "mtu", "verify"];

/// Which keys stood in the text.
struct Given(u32);

impl Given {
    /// Those of what the client says.
    fn terms() -> Self {
        let bits = TERMS.iter().filter_map(|key| Self::bit(key));
        Self(bits.fold(0, |all, bit| all | bit))
    }

    fn bit(key: &str) -> Option<u32> {
        let position = KEYS.iter().position(|known| *known == key)?;
        Some(1 << position)
    }

    /// Notes a key. `None` if it is not known, or was there before.
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

/// Reads words one by one.
pub struct Reader {
    options: Options,
    given: Given,
}

impl Reader {
    /// A reader that has read nothing.
    #[expect(clippy::new_without_default, reason = "nothing is what it begins with")]
    pub fn new() -> Self {
        Self {
            options: Options::default(),
            given: Given(0),
        }
    }

    /// Reads a word. `None` if it is not understood, or its key was there before.
    pub fn add(&mut self, key: &str, value: &str) -> Option<()> {
        self.given.add(key)?;
        self.options.set(key, value)
    }

    /// Whether a key was there.
    pub fn has(&self, key: &str) -> bool {
        self.given.has(key)
    }

    /// What was read. `None` where that does not go together.
    pub fn finish(self) -> Option<Options> {
        self.options.fit(&self.given)
    }
}

/// Bytes of what the client says.
pub const TERMS_LENGTH: usize = 16;

/// Where a value stands among the words.
fn place<T: Word>(value: T) -> u8 {
    let found = T::WORDS.iter().position(|(_, known)| *known == value);
    found
        .and_then(|at| u8::try_from(at).ok())
        .unwrap_or(u8::MAX)
}

/// The value that stands at a place among the words.
fn at<T: Word>(place: u8) -> Option<T> {
    T::WORDS.get(usize::from(place)).map(|(_, value)| *value)
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
            post: Place::Thread,
            poll: Poll::SoftIrq,
            mtu: DEFAULT_MTU,
            verify: false,
            address: None,
            port: DEFAULT_PORT,
        }
    }
}

/// A number in decimal digits, from `low` to `high`. `None` for anything else: signs, blanks, prefixes.
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
    /// Reads words with some of the `keys`. `None` for text that is not understood: keys or values that there are not, a key
    /// that is given twice, values that exclude each other.
    pub fn parse(text: &[u8], keys: &[&str]) -> Option<Self> {
        let text = core::str::from_utf8(text).ok()?;
        if text.len() > MAX_TEXT {
            return None;
        }
        let mut reader = Reader::new();
        for word in text.split_ascii_whitespace() {
            let (key, value) = word.split_once('=')?;
            if !keys.contains(&key) {
                return None;
            }
            reader.add(key, value)?;
        }
        reader.finish()
    }

    /// The same with what the client says in `theirs`.
    pub fn on_terms_of(self, theirs: &Self) -> Self {
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

    /// What the client says, but for the MTU.
    pub fn terms(&self) -> [u8; TERMS_LENGTH] {
        let [op, pattern] = [place(self.op), place(self.pattern)];
        let [size, depth, qps] = [self.size, self.depth, self.qps].map(u32::to_be_bytes);
        let mut bytes = [0; TERMS_LENGTH];
        let head = [op, pattern, self.verify.into(), 0];
        let all = head.into_iter().chain(size).chain(depth).chain(qps);
        bytes.iter_mut().zip(all).for_each(|(to, from)| *to = from);
        bytes
    }

    /// What a client says, and defaults. `None` for what no client says.
    pub fn from_terms(bytes: [u8; TERMS_LENGTH]) -> Option<Self> {
        let [op, pattern, verify, 0, numbers @ ..] = bytes else {
            return None;
        };
        let [a, b, c, d, e, f, g, h, i, j, k, l] = numbers;
        let options = Self {
            op: at(op)?,
            pattern: at(pattern)?,
            verify: (verify <= 1).then_some(verify == 1)?,
            size: within(u32::from_be_bytes([a, b, c, d]), MAX_SIZE)?,
            depth: within(u32::from_be_bytes([e, f, g, h]), MAX_DEPTH)?,
            qps: within(u32::from_be_bytes([i, j, k, l]), MAX_QPS)?,
            ..Self::default()
        };
        let fits = options.fit(&Given::terms())?;
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
            "post" => self.post = Place::parse(value)?,
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

    /// Fills in what follows from the rest. `None` where that does not go together.
    fn fit(mut self, given: &Given) -> Option<Self> {
        if given.has("iterations") && given.has("seconds") {
            return None;
        }
        if self.op.is_atomic() {
            if given.has("size") && self.size != ATOMIC_SIZE {
                return None;
            }
            self.size = ATOMIC_SIZE;
        }
        if self.pattern == Pattern::PingPong {
            if self.op != Op::Send || (given.has("depth") && self.depth != 1) {
                return None;
            }
            self.depth = 1;
        }
        if self.server.bytes().is_none() {
            self.server = self.client;
        }
        let under_way = self.depth.saturating_mul(self.qps);
        let memory = u64::from(under_way).saturating_mul(self.size.into());
        (under_way <= MAX_UNDER_WAY && memory <= MAX_MEMORY).then_some(self)
    }
}

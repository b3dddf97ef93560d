//! Attributes of records, events, links and exemplars: which keys, and the values drawn for them.
//! A set is a recipe and the bits it draws from, so that copying one costs nothing.

use super::Attributes;
use crate::mix::{Draw, Hex};

/// A value as sent, in an attribute or a log record's body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Text(&'a str),
    Int(i64),
    Double(f64),
    Bool(bool),
    Bytes(&'a [u8]),
    List(&'a [Value<'a>]),
    Pairs(&'a [(&'a str, Value<'a>)]),
}

const METHODS: [&str; 4] = ["GET", "PUT", "POST", "DELETE"];
const ROUTES: [&str; 4] = ["/", "/cart/{id}", "/naïve/ünïcode", "/quote\"and\\slash"];
const AGENTS: [&str; 3] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "curl/8.5.0",
    "okhttp/4.12.0",
];
const SERVERS: [&str; 4] = ["cart.shop.svc", "pay.shop.svc", "search.shop.svc", "mail.shop.svc"];
const TIERS: [&str; 3] = ["gold", "silver", "bronze"];
const TAGS: [Value<'static>; 4] =
    [Value::Text("eu"), Value::Text("retry"), Value::Text(""), Value::Text("überlast")];
const FUNCTIONS: [&str; 4] = ["Cart.add", "Pay.authorise", "search_items", "send_mail"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recipe {
    Nothing,
    LeanSpan,
    RichSpan,
    Event,
    Link,
    LogRecord,
    Point,
    Exemplar,
}

/// Attributes of one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Set {
    recipe: Recipe,
    draw: Draw,
    /// The record's index, where the recipe writes it out.
    index: u64,
}

impl Set {
    pub(crate) const NOTHING: Self = Self::of(Recipe::Nothing, Draw(0));

    const fn of(recipe: Recipe, draw: Draw) -> Self {
        Self { recipe, draw, index: 0 }
    }

    /// One number.
    pub(crate) const fn lean_span(draw: Draw) -> Self {
        Self::of(Recipe::LeanSpan, draw)
    }

    /// Fifteen attributes of every type.
    pub(crate) const fn rich_span(draw: Draw) -> Self {
        Self::of(Recipe::RichSpan, draw)
    }

    pub(crate) const fn event(draw: Draw) -> Self {
        Self::of(Recipe::Event, draw)
    }

    pub(crate) const fn link(draw: Draw) -> Self {
        Self::of(Recipe::Link, draw)
    }

    /// Four or five attributes; the first is the record's id.
    pub(crate) const fn log_record(draw: Draw, index: u64) -> Self {
        Self { recipe: Recipe::LogRecord, draw, index }
    }

    /// Four attributes; the first is the point's index.
    pub(crate) const fn point(draw: Draw, index: u64) -> Self {
        Self { recipe: Recipe::Point, draw, index }
    }

    pub(crate) const fn exemplar(draw: Draw) -> Self {
        Self::of(Recipe::Exemplar, draw)
    }

    fn rich(&self, take: &mut dyn FnMut(&str, Value<'_>)) {
        let (draw, more) = (self.draw, self.draw.next());
        take("load.n", number(draw));
        take("http.request.method", Value::Text(draw.pick(42, &METHODS)));
        take("http.route", Value::Text(draw.pick(46, &ROUTES)));
        take("http.response.status_code", Value::Int(200 + draw.bits(50, 8) as i64));
        let id = Hex::new(more.0);
        take("url.path", Value::Text(id.as_str()));
        take("url.scheme", Value::Text("https"));
        take("server.address", Value::Text(more.pick(0, &SERVERS)));
        take("server.port", Value::Int(8_000 + more.bits(4, 4) as i64));
        take("client.address", Value::Text(more.pick(8, &["192.0.2.17", "2001:db8::7"])));
        take("user_agent.original", Value::Text(more.pick(12, &AGENTS)));
        take("network.protocol.version", Value::Text(more.pick(31, &["1.1", "2", "3"])));
        take("load.ratio", Value::Double(more.bits(14, 16) as f64 / 8.0));
        take("load.cached", Value::Bool(more.bits(30, 1) == 1));
        let tags = more.bits(36, 2) as usize;
        take("load.tags", Value::List(&TAGS[tags..]));
        match more.bits(40, 3) {
            0 => take("load.digest", Value::Bytes(&more.0.to_be_bytes())),
            1 => take("load.codes", Value::List(&[Value::Int(more.bits(44, 8) as i64)])),
            2 => take("load.detail", detail(more)),
            _ => take("enduser.id", Value::Text(id.as_str())),
        }
    }

    fn log(&self, take: &mut dyn FnMut(&str, Value<'_>)) {
        let Self { draw, index, .. } = *self;
        take("log.record.uid", Value::Text(Hex::new(Draw(index + 1).next().0).as_str()));
        take("code.function.name", Value::Text(draw.pick(20, &FUNCTIONS)));
        take("thread.id", Value::Int(1 + draw.bits(24, 6) as i64));
        take("log.iostream", Value::Text(draw.pick(30, &["stdout", "stderr"])));
        if draw.is_rare(34, 3) {
            take("load.detail", detail(draw));
        }
    }
}

impl Attributes for Set {
    #[inline]
    fn each(&self, take: &mut dyn FnMut(&str, Value<'_>)) {
        let draw = self.draw;
        match self.recipe {
            Recipe::Nothing => {}
            Recipe::LeanSpan => take("load.n", number(draw)),
            Recipe::RichSpan => self.rich(take),
            Recipe::Event => {
                take("attempt", Value::Int(draw.bits(31, 4) as i64));
                take("final", Value::Bool(draw.bits(35, 1) == 1));
            }
            Recipe::Link => take("load.hops", Value::Int(draw.bits(0, 3) as i64)),
            Recipe::LogRecord => self.log(take),
            Recipe::Point => {
                take("load.index", Value::Int(self.index as i64));
                take("http.request.method", Value::Text(draw.pick(20, &METHODS)));
                take("http.route", Value::Text(draw.pick(24, &ROUTES)));
                take("http.response.status_code", Value::Int(200 + draw.bits(28, 2) as i64 * 100));
            }
            Recipe::Exemplar => {
                take("enduser.id", Value::Text(Hex::new(draw.0).as_str()));
                take("load.cached", Value::Bool(draw.bits(3, 1) == 1));
            }
        }
    }

    fn count(&self) -> usize {
        let mut count = 0;
        if self.recipe != Recipe::Nothing {
            self.each(&mut |_, _| count += 1);
        }
        count
    }
}

/// One in 64 is negative: ten bytes of varint, and a sign to lose on the way.
#[inline]
fn number(draw: Draw) -> Value<'static> {
    let size = draw.next().bits(0, 14) as i64;
    Value::Int(if draw.is_rare(32, 6) { -size - 1 } else { size })
}

/// A list of pairs, nested once. Members are in the order of their keys, as readers that sort them
/// would have them.
fn detail(draw: Draw) -> Value<'static> {
    const fn of(tier: &'static str) -> [(&'static str, Value<'static>); 3] {
        [
            ("limits", Value::Pairs(&[("cpu", Value::Double(0.5)), ("pods", Value::Int(40))])),
            ("spot", Value::Bool(true)),
            ("tier", Value::Text(tier)),
        ]
    }
    static DETAILS: [[(&str, Value<'static>); 3]; 3] = [of(TIERS[0]), of(TIERS[1]), of(TIERS[2])];
    Value::Pairs(&DETAILS[draw.bits(48, 4) as usize % DETAILS.len()])
}

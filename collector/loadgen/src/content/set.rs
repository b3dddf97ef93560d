//! Attributes of records, events, links and exemplars: their keys, and the values drawn for them. A
//! set is a recipe and the bits it draws from, so that copying one costs nothing.

use super::AttributeList;
use crate::mix::{Draw, Hex};

/// A value as sent, in an attribute or a log record's body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SentValue<'a> {
    Text(&'a str),
    Int(i64),
    Double(f64),
    Bool(bool),
    Bytes(&'a [u8]),
    List(&'a [SentValue<'a>]),
    Pairs(&'a [(&'a str, SentValue<'a>)]),
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
const TAGS: [SentValue<'static>; 4] = [
    SentValue::Text("eu"),
    SentValue::Text("retry"),
    SentValue::Text(""),
    SentValue::Text("überlast"),
];
const FUNCTIONS: [&str; 4] = ["Cart.add", "Pay.authorise", "search_items", "send_mail"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recipe {
    Nothing,
    LeanSpan,
    RuledSpan,
    UnruledSpan,
    RichSpan,
    Event,
    Link,
    LogRecord,
    Point,
    Exemplar,
}

/// The attributes of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Set {
    recipe: Recipe,
    draw: Draw,
    /// The record's index, for recipes that write it.
    index: u64,
}

impl Set {
    pub(crate) const NOTHING: Self = Self::new(Recipe::Nothing, Draw(0));

    const fn new(recipe: Recipe, draw: Draw) -> Self {
        Self { recipe, draw, index: 0 }
    }

    /// Returns a set of one number.
    pub(crate) const fn lean_span(draw: Draw) -> Self {
        Self::new(Recipe::LeanSpan, draw)
    }

    /// Returns a number and a redacted owner.
    pub(crate) const fn ruled_span(draw: Draw) -> Self {
        Self::new(Recipe::RuledSpan, draw)
    }

    /// Returns the attributes as they are sent: those of a ruled span before its rules.
    pub(crate) const fn before_rules(self) -> Self {
        match self.recipe {
            Recipe::RuledSpan => Self { recipe: Recipe::UnruledSpan, ..self },
            _ => self,
        }
    }

    /// Returns fifteen attributes of every type.
    pub(crate) const fn rich_span(draw: Draw) -> Self {
        Self::new(Recipe::RichSpan, draw)
    }

    pub(crate) const fn event(draw: Draw) -> Self {
        Self::new(Recipe::Event, draw)
    }

    pub(crate) const fn link(draw: Draw) -> Self {
        Self::new(Recipe::Link, draw)
    }

    /// Returns four or five attributes; the first is the record's id.
    pub(crate) const fn log_record(draw: Draw, index: u64) -> Self {
        Self { recipe: Recipe::LogRecord, draw, index }
    }

    /// Returns four attributes; the first is the point's index.
    pub(crate) const fn point(draw: Draw, index: u64) -> Self {
        Self { recipe: Recipe::Point, draw, index }
    }

    pub(crate) const fn exemplar(draw: Draw) -> Self {
        Self::new(Recipe::Exemplar, draw)
    }

    fn rich_attributes(&self, take: &mut dyn FnMut(&str, SentValue<'_>)) {
        let (draw, more) = (self.draw, self.draw.next());
        take("load.n", draw_number(draw));
        take("http.request.method", SentValue::Text(draw.pick(42, &METHODS)));
        take("http.route", SentValue::Text(draw.pick(46, &ROUTES)));
        take("http.response.status_code", SentValue::Int(200 + draw.bits(50, 8) as i64));
        let id = Hex::new(more.0);
        take("url.path", SentValue::Text(id.as_str()));
        take("url.scheme", SentValue::Text("https"));
        take("server.address", SentValue::Text(more.pick(0, &SERVERS)));
        take("server.port", SentValue::Int(8_000 + more.bits(4, 4) as i64));
        take("client.address", SentValue::Text(more.pick(8, &["192.0.2.17", "2001:db8::7"])));
        take("user_agent.original", SentValue::Text(more.pick(12, &AGENTS)));
        take("network.protocol.version", SentValue::Text(more.pick(31, &["1.1", "2", "3"])));
        take("load.ratio", SentValue::Double(more.bits(14, 16) as f64 / 8.0));
        take("load.cached", SentValue::Bool(more.bits(30, 1) == 1));
        let tags = more.bits(36, 2) as usize;
        take("load.tags", SentValue::List(&TAGS[tags..]));
        match more.bits(40, 3) {
            0 => take("load.digest", SentValue::Bytes(&more.0.to_be_bytes())),
            1 => take("load.codes", SentValue::List(&[SentValue::Int(more.bits(44, 8) as i64)])),
            2 => take("load.detail", draw_detail(more)),
            _ => take("enduser.id", SentValue::Text(id.as_str())),
        }
    }

    fn log_attributes(&self, take: &mut dyn FnMut(&str, SentValue<'_>)) {
        let Self { draw, index, .. } = *self;
        take("log.record.uid", SentValue::Text(Hex::new(Draw(index + 1).next().0).as_str()));
        take("code.function.name", SentValue::Text(draw.pick(20, &FUNCTIONS)));
        take("thread.id", SentValue::Int(1 + draw.bits(24, 6) as i64));
        take("log.iostream", SentValue::Text(draw.pick(30, &["stdout", "stderr"])));
        if draw.is_rare(34, 3) {
            take("load.detail", draw_detail(draw));
        }
    }
}

impl AttributeList for Set {
    #[inline]
    fn for_each(&self, take: &mut dyn FnMut(&str, SentValue<'_>)) {
        let draw = self.draw;
        match self.recipe {
            Recipe::Nothing => {}
            Recipe::LeanSpan => take("load.n", draw_number(draw)),
            Recipe::RuledSpan => {
                take("load.n", draw_number(draw));
                take("load.owner", SentValue::Text("user ****"));
            }
            Recipe::UnruledSpan => {
                take("load.number", draw_number(draw));
                let owner = format!("user {}@example.com", Hex::new(draw.0).as_str());
                take("load.owner", SentValue::Text(&owner));
            }
            Recipe::RichSpan => self.rich_attributes(take),
            Recipe::Event => {
                take("attempt", SentValue::Int(draw.bits(31, 4) as i64));
                take("final", SentValue::Bool(draw.bits(35, 1) == 1));
            }
            Recipe::Link => take("load.hops", SentValue::Int(draw.bits(0, 3) as i64)),
            Recipe::LogRecord => self.log_attributes(take),
            Recipe::Point => {
                take("load.index", SentValue::Int(self.index as i64));
                take("http.request.method", SentValue::Text(draw.pick(20, &METHODS)));
                take("http.route", SentValue::Text(draw.pick(24, &ROUTES)));
                take(
                    "http.response.status_code",
                    SentValue::Int(200 + draw.bits(28, 2) as i64 * 100),
                );
            }
            Recipe::Exemplar => {
                take("enduser.id", SentValue::Text(Hex::new(draw.0).as_str()));
                take("load.cached", SentValue::Bool(draw.bits(3, 1) == 1));
            }
        }
    }

    fn len(&self) -> usize {
        let mut count = 0;
        if self.recipe != Recipe::Nothing {
            self.for_each(&mut |_, _| count += 1);
        }
        count
    }
}

/// Draws a number. One in 64 is negative: ten bytes of varint, and a sign that could get lost.
#[inline]
fn draw_number(draw: Draw) -> SentValue<'static> {
    let size = draw.next().bits(0, 14) as i64;
    SentValue::Int(if draw.is_rare(32, 6) { -size - 1 } else { size })
}

/// Draws a list of pairs, nested once. Members are in the order of their keys, for readers that
/// sort them.
fn draw_detail(draw: Draw) -> SentValue<'static> {
    const fn details_of(tier: &'static str) -> [(&'static str, SentValue<'static>); 3] {
        [
            (
                "limits",
                SentValue::Pairs(&[("cpu", SentValue::Double(0.5)), ("pods", SentValue::Int(40))]),
            ),
            ("spot", SentValue::Bool(true)),
            ("tier", SentValue::Text(tier)),
        ]
    }
    static DETAILS: [[(&str, SentValue<'static>); 3]; 3] =
        [details_of(TIERS[0]), details_of(TIERS[1]), details_of(TIERS[2])];
    SentValue::Pairs(&DETAILS[draw.bits(48, 4) as usize % DETAILS.len()])
}

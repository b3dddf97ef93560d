//! The functions and their parameters.

pub(crate) mod arguments;
pub(crate) mod converters;
pub(crate) mod editors;
pub(crate) mod strptime;

/// A function's parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    pub(crate) is_optional: bool,
}

/// What a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Any value.
    Any,
    /// A value that is text.
    Text,
    /// A value that is a number without a fraction.
    Int,
    /// A value that is a map.
    Map,
    /// A value that is a list.
    List,
    /// A value that is a time.
    Time,
    /// A path to any field.
    Target,
    /// A path to a map.
    MapTarget,
    /// A list of values of any type.
    Values,
    /// The same, or a value that is a list.
    ValuesOrList,
    /// A list of values that are text.
    Texts,
    /// A text that is known when rules are compiled.
    ConstText,
    /// A list of such texts.
    ConstTexts,
    ConstInt,
    ConstBool,
    /// The name of a converter from text to text.
    Function,
}

const fn required(name: &'static str, form: Form) -> Parameter {
    Parameter { name, form, is_optional: false }
}

const fn optional(name: &'static str, form: Form) -> Parameter {
    Parameter { name, form, is_optional: true }
}

/// A function's name and parameters.
pub(crate) type Signature = (&'static str, &'static [Parameter]);

const TARGET_TEXT: &[Parameter] = &[required("target", Form::Text)];
const TARGET_ANY: &[Parameter] = &[required("target", Form::Any)];
const TARGET_MAP: &[Parameter] = &[required("target", Form::Map)];
const TIME: &[Parameter] = &[required("time", Form::Time)];
const TARGET_PATTERN: &[Parameter] =
    &[required("target", Form::Any), required("pattern", Form::ConstText)];
const MAP_PATTERN: &[Parameter] =
    &[required("target", Form::MapTarget), required("pattern", Form::ConstText)];

/// The editors, by name.
pub(crate) const EDITORS: &[Signature] = &[
    (
        "append",
        &[
            required("target", Form::Target),
            optional("value", Form::Any),
            optional("values", Form::Values),
        ],
    ),
    ("delete_key", &[required("target", Form::MapTarget), required("key", Form::Text)]),
    ("delete_matching_keys", MAP_PATTERN),
    (
        "flatten",
        &[
            required("target", Form::MapTarget),
            optional("prefix", Form::ConstText),
            optional("depth", Form::ConstInt),
            optional("resolve_conflicts", Form::ConstBool),
        ],
    ),
    ("keep_keys", &[required("target", Form::MapTarget), required("keys", Form::Texts)]),
    ("keep_matching_keys", MAP_PATTERN),
    (
        "limit",
        &[
            required("target", Form::MapTarget),
            required("limit", Form::ConstInt),
            required("priority_keys", Form::ConstTexts),
        ],
    ),
    (
        "merge_maps",
        &[
            required("target", Form::MapTarget),
            required("source", Form::Map),
            required("strategy", Form::ConstText),
        ],
    ),
    (
        "replace_all_matches",
        &[
            required("target", Form::MapTarget),
            required("pattern", Form::ConstText),
            required("replacement", Form::Text),
            optional("function", Form::Function),
            optional("replacement_format", Form::ConstText),
        ],
    ),
    (
        "replace_all_patterns",
        &[
            required("target", Form::MapTarget),
            required("mode", Form::ConstText),
            required("regex_pattern", Form::ConstText),
            required("replacement", Form::Text),
            optional("function", Form::Function),
            optional("replacement_format", Form::ConstText),
        ],
    ),
    (
        "replace_match",
        &[
            required("target", Form::Target),
            required("pattern", Form::ConstText),
            required("replacement", Form::Text),
            optional("function", Form::Function),
            optional("replacement_format", Form::ConstText),
        ],
    ),
    (
        "replace_pattern",
        &[
            required("target", Form::Target),
            required("regex_pattern", Form::ConstText),
            required("replacement", Form::Text),
            optional("function", Form::Function),
            optional("replacement_format", Form::ConstText),
        ],
    ),
    ("set", &[required("target", Form::Target), required("value", Form::Any)]),
    (
        "truncate_all",
        &[
            required("target", Form::MapTarget),
            required("limit", Form::ConstInt),
            optional("utf8_safe", Form::ConstBool),
            optional("truncation_marker", Form::ConstText),
        ],
    ),
];

/// The converters, by name.
pub(crate) const CONVERTERS: &[Signature] = &[
    ("Base64Decode", TARGET_TEXT),
    ("Base64Encode", &[required("target", Form::Text), optional("variant", Form::ConstText)]),
    ("Bool", TARGET_ANY),
    ("Coalesce", &[required("values", Form::Values)]),
    ("Concat", &[required("vals", Form::ValuesOrList), required("delimiter", Form::Text)]),
    ("ContainsValue", &[required("target", Form::List), required("item", Form::Any)]),
    ("ConvertCase", &[required("target", Form::Text), required("to_case", Form::ConstText)]),
    ("Day", TIME),
    ("Double", TARGET_ANY),
    ("ExtractPatterns", &[required("target", Form::Text), required("pattern", Form::ConstText)]),
    ("FNV", TARGET_TEXT),
    ("HasPrefix", &[required("target", Form::Text), required("prefix", Form::Text)]),
    ("HasSuffix", &[required("target", Form::Text), required("suffix", Form::Text)]),
    ("Hex", TARGET_ANY),
    ("Hour", TIME),
    ("Index", &[required("target", Form::Any), required("value", Form::Any)]),
    ("Int", TARGET_ANY),
    ("IsBool", TARGET_ANY),
    ("IsDouble", TARGET_ANY),
    ("IsInt", TARGET_ANY),
    ("IsList", TARGET_ANY),
    ("IsMap", TARGET_ANY),
    ("IsMatch", TARGET_PATTERN),
    ("IsRootSpan", &[]),
    ("IsString", TARGET_ANY),
    ("Keys", TARGET_MAP),
    ("Len", TARGET_ANY),
    ("Minute", TIME),
    ("Month", TIME),
    ("Nanosecond", TIME),
    ("ParseInt", &[required("target", Form::Text), required("base", Form::Int)]),
    ("ParseJSON", TARGET_TEXT),
    ("SHA256", TARGET_TEXT),
    ("SHA512", TARGET_TEXT),
    ("Second", TIME),
    ("SpanID", TARGET_ANY),
    ("Split", &[required("target", Form::Text), required("delimiter", Form::Text)]),
    ("String", TARGET_ANY),
    (
        "Substring",
        &[
            required("target", Form::Text),
            required("start", Form::Int),
            required("length", Form::Int),
            optional("utf8_safe", Form::ConstBool),
        ],
    ),
    (
        "Time",
        &[
            required("time", Form::Text),
            required("format", Form::ConstText),
            optional("location", Form::ConstText),
            optional("locale", Form::ConstText),
        ],
    ),
    ("ToCamelCase", TARGET_TEXT),
    ("ToLowerCase", TARGET_TEXT),
    ("ToSnakeCase", TARGET_TEXT),
    ("ToUpperCase", TARGET_TEXT),
    ("TraceID", TARGET_ANY),
    ("Trim", &[required("target", Form::Text), optional("replacement", Form::ConstText)]),
    ("TrimPrefix", &[required("target", Form::Text), required("prefix", Form::Text)]),
    ("TrimSuffix", &[required("target", Form::Text), required("suffix", Form::Text)]),
    ("Unix", &[required("seconds", Form::Int), optional("nanoseconds", Form::Int)]),
    ("UnixMicro", TIME),
    ("UnixMilli", TIME),
    ("UnixNano", TIME),
    ("UnixSeconds", TIME),
    ("Values", TARGET_MAP),
    ("Weekday", TIME),
    ("Year", TIME),
];

/// Returns all functions as users write them, editors first: the name, and its parameters in order,
/// optional ones in brackets.
#[must_use]
pub fn function_signatures() -> Vec<String> {
    let parameter = |one: &Parameter| match one.is_optional {
        true => format!("[{}]", one.name),
        false => one.name.to_owned(),
    };
    let signature = |(name, parameters): &Signature| {
        let parameters: Vec<String> = parameters.iter().map(parameter).collect();
        format!("{name}({})", parameters.join(", "))
    };
    EDITORS.iter().chain(CONVERTERS).map(signature).collect()
}

/// What to write instead of functions of the Collector that rules don't have.
pub(crate) fn replacement_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "ExtractGrokPatterns" => "write the pattern as a regular expression for ExtractPatterns",
        "Now" | "UUID" | "UUIDv7" => {
            "rules give the same result for the same record, so they know neither the time nor \
             random numbers"
        }
        "ParseCSV" | "ParseKeyValue" => "use ExtractPatterns",
        "MD5" | "SHA1" | "Murmur3Hash" | "Murmur3Hash128" | "XXH3" | "XXH128" => {
            "use SHA256 or FNV"
        }
        "Decode" => "use Base64Decode",
        "Format" => "use Concat",
        _ => return None,
    })
}

package main

// What can be named in a context besides attributes, by kind.
type paths struct {
	text, number, double, boolean, time []string
	maps                                []string
	// Contexts above it, with what they hold.
	above []string
}

var contexts = map[string]paths{
	"log": {
		text: []string{
			"body", "severity_text", "body.string", "event_name", "trace_id.string", "span_id.string",
		},
		number: []string{
			"severity_number", "time_unix_nano", "observed_time_unix_nano", "flags",
			"dropped_attributes_count",
		},
		time:  []string{"time", "observed_time"},
		maps:  []string{"body"},
		above: []string{"resource", "scope"},
	},
	"span": {
		text: []string{
			"name", "status.message", "kind.string", "trace_state", `trace_state["a"]`,
			"trace_id.string", "span_id.string", "parent_span_id.string", "kind.deprecated_string",
		},
		number: []string{
			"kind", "status.code", "start_time_unix_nano", "end_time_unix_nano",
			"dropped_attributes_count", "dropped_events_count", "dropped_links_count", "flags",
		},
		time:  []string{"start_time", "end_time"},
		above: []string{"resource", "scope"},
	},
	"spanevent": {
		text:   []string{"name"},
		number: []string{"time_unix_nano", "dropped_attributes_count"},
		time:   []string{"time"},
		above:  []string{"resource", "scope", "span"},
	},
	"metric": {
		text:    []string{"name", "description", "unit"},
		number:  []string{"type", "aggregation_temporality"},
		boolean: []string{"is_monotonic"},
		maps:    []string{"metadata"},
		above:   []string{"resource", "scope"},
	},
	"datapoint": {
		text: []string{"metric.name", "metric.unit"},
		number: []string{
			"value_int", "time_unix_nano", "flags", "count", "metric.type", "scale", "zero_count",
		},
		double: []string{"value_double", "sum"},
		time:   []string{"time", "start_time"},
		above:  []string{"resource", "scope"},
	},
	"resource": {number: []string{"dropped_attributes_count"}, text: []string{"schema_url"}},
	"scope":    {text: []string{"name", "version"}, above: []string{"resource"}},
}

// How often a context is chosen.
var weights = []struct {
	signal, context string
	percent         int
}{
	{"logs", "log", 40}, {"traces", "span", 22}, {"traces", "spanevent", 6},
	{"metrics", "datapoint", 12}, {"metrics", "metric", 6}, {"logs", "resource", 5},
	{"traces", "scope", 4}, {"metrics", "resource", 5},
}

var editors = []string{
	"set", "set", "set", "set", "set", "set", "set", "set", "set", "set", "delete_key",
	"delete_matching_keys", "keep_keys", "keep_matching_keys", "replace_pattern", "replace_pattern",
	"replace_match", "replace_all_patterns", "replace_all_matches", "truncate_all", "limit",
	"merge_maps", "merge_maps", "flatten", "append", "append",
}

var converters = []string{
	"Concat", "ConvertCase", "Split", "Substring", "SHA256", "FNV", "Int", "Double", "String", "Len",
	"ParseJSON", "ExtractPatterns", "Time", "UnixNano", "math", "math", "list", "map", "path",
	"Concat", "ExtractGrokPatterns", "IsMatch",
}

// Editors whose answer depends on the order of keys, which the Collector changes where it deletes.
// They are alone in their cases.
var ordered = map[string]bool{"limit": true, "flatten": true, "replace_all_patterns": true}

var enums = map[string][]string{
	"log":       {"SEVERITY_NUMBER_INFO", "SEVERITY_NUMBER_WARN", "SEVERITY_NUMBER_ERROR4"},
	"span":      {"SPAN_KIND_SERVER", "STATUS_CODE_ERROR", "STATUS_CODE_OK"},
	"metric":    {"METRIC_DATA_TYPE_SUM", "METRIC_DATA_TYPE_GAUGE", "AGGREGATION_TEMPORALITY_DELTA"},
	"datapoint": {"METRIC_DATA_TYPE_SUM", "METRIC_DATA_TYPE_HISTOGRAM", "FLAG_NO_RECORDED_VALUE"},
}

// Regular expressions; groups by number and name.
var patterns = []string{
	"a", "^/api/(v[0-9]+)/", "(\\w+)=(\\d)", "[A-Z]+", "^$", "(?i)error", "o",
	"(?P<first>\\w+)@(?P<host>.+)", "\\d+", "(a)|(b)", "ß|🙂", ".", "^http\\.", "\\bx\\b",
	"(?P<key>[a-z]+)=(?P<value>[^ ]*)", "x*",
}

var replacements = []string{"", "X", "$1", "${1}_", "$1x", "$$", "<$0>", "${first}", "größe"}

var globs = []string{
	"*", "GET", "/*", "?????", "*o*", "{GET,POST}", "[a-z]*", "*größe*", "a/b/*", "\\\\*",
}

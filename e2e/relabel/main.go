// Relabel makes random rules and labels, applies the rules with Prometheus' own package, and
// prints one line for each case: rules, labels, what Prometheus makes of them.
//
//	relabel COUNT SEED > cases.jsonl
//
// The cases that `make test` has are those of `relabel 2000 7`, packed with `gzip -9n`.
//
// A line is an array: the rules (each an object of the fields that are set), the labels (pairs in
// the order of their names), and the answer: null where a rule is refused, false where the rules
// drop, otherwise the labels.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
)

type rule struct {
	Action      string   `json:"action"`
	Source      []string `json:"source,omitempty"`
	Separator   *string  `json:"separator,omitempty"`
	Regex       *string  `json:"regex,omitempty"`
	Modulus     uint64   `json:"modulus,omitempty"`
	Replacement *string  `json:"replacement,omitempty"`
	Target      string   `json:"target,omitempty"`
}

var names = []string{
	"__name__", "__address__", "__meta_pod", "__meta_zone", "a", "b", "ab", "le", "job", "zone",
	"instance", "größe", "with.dot", "A",
}

var values = []string{
	"", "a", "b", "ab", "aa", "x-1", "X-1", "10.0.0.1:9100", "host:80", "go_gc", "up", "ΣΑΣ", "ß",
	"İı", "ǅ", "ᾳᾼ", "line\nbreak", "tab\tand space", "\v", "a;b", "$1", "K", "ſ", "漢字", "0.5",
	"+Inf", "é", "_", "-", "foo_bar_baz", "\\", "aaaaaaaaaa", "🙂",
}

var actions = []string{
	"replace", "replace", "replace", "replace", "keep", "drop", "keepequal", "dropequal", "hashmod",
	"labelmap", "labelmap", "labeldrop", "labelkeep", "lowercase", "uppercase", "Replace",
}

var replacements = []string{
	"$1", "${1}", "$2", "$0", "${name}", "$name", "$1_x", "${1}_x", "x", "", "$$1", "$", "a$", "${",
	"${1", "$1$2", "pre_${1}_post", "$10", "$01", "$ü", "${größe}", "$1é", "a b", "$-1", "__name__",
}

var targets = []string{
	"a", "b", "c", "__name__", "$1", "${1}", "x_${1}", "with.dot", "größe", "__address__", "", "a-b",
	"$2", "zone", "${name}",
}

var atoms = []string{
	"a", "b", "x", "1", "-", ":", "_", ".", ".", `\d`, `\D`, `\w`, `\W`, `\s`, `\S`, `[a-z]`,
	`[^a-z]`, `[[:alpha:]]`, `[[:^digit:]_]`, `[\d.]`, `[]a]`, `[a\]-]`, `[&&a]`, `[a--b]`, `[[a]`,
	`[^\n]`, `\.`, `\-`, `\_`, `\x41`, `\x{df}`, `\101`, `\n`, `\t`, `\v`, `\pL`, `\p{Greek}`,
	`\P{Lu}`, `\p{^L}`, `[\pN\s]`, `^`, `$`, `\A`, `\z`, `\b`, `\B`, `\Qa.b\E`, `\Q$1\E`, "ß", "é",
	"漢", "Σ", "k", "s", "{", "}", "a{,2}", "]", ",", `[\W]`, `[^\S]`, `[^\D5]`, `\;`, "go_gc", "up",
	`[[:word:]]`, `[[:space:]]`, `[^[:upper:]]`, " ", "#", "&", "~", `\/`, `\0`, `\07`,
	// Refused by Prometheus.
	`\1`, `\8`, `\Z`, `\y`, `[z-a]`, `[[:foo:]]`, `\x{110000}`, `(?=a)`, `(?x)`, `\C`, `[a`, `*`,
	`\xg`, `(?P<>a)`, `\E`, `\h`, `(?<1a>a)`,
}

var repeats = []string{
	"*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{0,}", "{2,}?", "{1001}", "**", "{3,1}", "{x}",
	"{02}", "{2}{3}",
}

var flagsRepeated = regexp.MustCompile(`\(\?[imsU-]+\)[*+?{]`)

func pick(r *rand.Rand, from []string) string { return from[r.Intn(len(from))] }

func pattern(r *rand.Rand, depth int) string {
	var out strings.Builder
	for n := r.Intn(4); n >= 0; n-- {
		var atom string
		switch {
		case depth < 3 && r.Intn(5) == 0:
			open := pick(r, []string{"(", "(", "(", "(?:", "(?i:", "(?-s:", "(?m:", "(?P<name>", "(?<name>", "(?U:", "(?im-s:"})
			atom = open + pattern(r, depth+1) + ")"
		case r.Intn(25) == 0:
			atom = pick(r, []string{"(?i)", "(?-s)", "(?m)", "(?U)", "(?s-i)"})
			out.WriteString(atom)
			continue
		default:
			// Those that are refused are few.
			atom = atoms[r.Intn(len(atoms)-17*r.Intn(2))]
			if r.Intn(2) == 0 {
				atom = pick(r, []string{".", ".*", "a", "(.*)", "(.+)", "[a-z]+", "(a|b)", "x"})
				if strings.HasSuffix(atom, "*") || strings.HasSuffix(atom, "+") {
					out.WriteString(atom)
					continue
				}
			}
		}
		out.WriteString(atom)
		if r.Intn(4) == 0 {
			out.WriteString(pick(r, repeats[:len(repeats)-6*r.Intn(2)]))
		}
		if r.Intn(8) == 0 {
			out.WriteString("|")
		}
	}
	return out.String()
}

// simple is a pattern as people write them.
func simple(r *rand.Rand) string {
	return pick(r, []string{
		"(.*)", ".*", ".+", "", "a", "a|b", "(a|b)", "go_.*", "(go_.*|up)", "(?:a|ab)", "(.*):(.*)",
		"([^:]+)(?::\\d+)?", "__meta_(.+)", "(__name__|a)", "(?i)x-1", "(.+);(.+)", "(?P<name>[a-z]+).*",
		"(a)|(b)", "(.)(.)?.*", "_?(.+)", "(.*)_(.*)", "\\$1", "a;b", "[a-zA-Z_]+", "(.+)-(\\d)",
	})
}

func randomRule(r *rand.Rand) rule {
	out := rule{Action: pick(r, actions)}
	action := strings.ToLower(out.Action)
	isNames := action == "labeldrop" || action == "labelkeep"
	isStrict := isNames || action == "keepequal" || action == "dropequal"
	if !isNames || r.Intn(30) == 0 {
		for n := r.Intn(4); n > 0; n-- {
			out.Source = append(out.Source, pick(r, names))
		}
	}
	if r.Intn(8) == 0 && (!isStrict || r.Intn(10) == 0) {
		separator := pick(r, []string{"", ";", "-", "$1", "::", "ß"})
		out.Separator = &separator
	}
	if (action != "keepequal" && action != "dropequal" || r.Intn(20) == 0) && r.Intn(6) > 0 {
		regex := simple(r)
		if r.Intn(2) == 0 {
			regex = pattern(r, 0)
		}
		// Not taken by Millrace, and named in docs/internals/prometheus.md: a repetition behind flags.
		if flagsRepeated.MatchString(regex) {
			regex = simple(r)
		}
		out.Regex = &regex
	}
	if action == "hashmod" && r.Intn(20) > 0 || r.Intn(40) == 0 {
		out.Modulus = []uint64{1, 2, 3, 10, 1000, 1 << 63, 1<<64 - 1}[r.Intn(7)]
	}
	hasReplacement := action == "replace" || action == "labelmap"
	if hasReplacement && r.Intn(4) > 0 || r.Intn(30) == 0 {
		replacement := pick(r, replacements)
		out.Replacement = &replacement
	}
	if action != "keep" && action != "drop" && action != "labelmap" && !isNames || r.Intn(30) == 0 {
		out.Target = pick(r, targets)
	}
	return out
}

// config is the rule as Prometheus reads it from a file; nil if it refuses it.
func config(from rule) *relabel.Config {
	out := relabel.DefaultRelabelConfig
	if out.Action = relabel.Action(strings.ToLower(from.Action)); from.Source != nil {
		for _, name := range from.Source {
			out.SourceLabels = append(out.SourceLabels, model.LabelName(name))
		}
	}
	if from.Separator != nil {
		out.Separator = *from.Separator
	}
	// The default expression is told by its address.
	if from.Regex != nil && *from.Regex != "(.*)" {
		regex, err := relabel.NewRegexp(*from.Regex)
		if err != nil {
			return nil
		}
		out.Regex = regex
	}
	out.Modulus = from.Modulus
	if from.Replacement != nil {
		out.Replacement = *from.Replacement
	}
	out.TargetLabel = from.Target
	if out.Validate(model.UTF8Validation) != nil {
		return nil
	}
	return &out
}

func answer(rules []rule, before labels.Labels) any {
	var configs []*relabel.Config
	for _, one := range rules {
		made := config(one)
		if made == nil {
			return nil
		}
		configs = append(configs, made)
	}
	builder := labels.NewBuilder(before)
	if !relabel.ProcessBuilder(builder, configs...) {
		return false
	}
	return pairs(builder.Labels())
}

func pairs(from labels.Labels) [][2]string {
	out := [][2]string{}
	from.Range(func(one labels.Label) { out = append(out, [2]string{one.Name, one.Value}) })
	return out
}

func main() {
	count, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	seed, err := strconv.ParseInt(os.Args[2], 10, 64)
	if err != nil {
		panic(err)
	}
	r := rand.New(rand.NewSource(seed))
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for ; count > 0; count-- {
		before := map[string]string{}
		for n := r.Intn(7); n > 0; n-- {
			if value := pick(r, values); value != "" {
				before[pick(r, names)] = value
			}
		}
		var rules []rule
		for n := r.Intn(4); n >= 0; n-- {
			rules = append(rules, randomRule(r))
		}
		set := labels.FromMap(before)
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode([]any{rules, pairs(set), answer(rules, set)}); err != nil {
			panic(fmt.Sprint(err))
		}
	}
}
